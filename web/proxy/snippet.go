package proxy

import (
	"fmt"
	"strings"
)

// Snippet returns what another web server needs in its configuration to bring
// requests for sites below domain to berth at listen. It fails for servers but
// nginx and caddy.
func Snippet(server, domain, listen string) (string, error) {
	text, ok := snippets[server]
	if !ok {
		return "", fmt.Errorf("there is a snippet for nginx and one for caddy, none for %q", server)
	}
	return strings.NewReplacer("DOMAIN", domain, "LISTEN", listen).Replace(text), nil
}

var snippets = map[string]string{
	"nginx": `# /etc/nginx/conf.d/berth.conf: sites below DOMAIN, in the block "http".
map $http_upgrade $berth_connection {
    default upgrade;
    ""      "";
}
server {
    listen 80;
    listen [::]:80;
    server_name .DOMAIN;
    # For HTTPS: listen 443 ssl; ssl_certificate and ssl_certificate_key of *.DOMAIN.

    client_max_body_size 0;
    location / {
        proxy_pass http://LISTEN;
        proxy_http_version 1.1;
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $berth_connection;
        proxy_buffering off;
        proxy_request_buffering off;
        proxy_read_timeout 1h;
    }
}
`,
	"caddy": `# Caddyfile: sites below DOMAIN. HTTPS for *.DOMAIN needs a certificate of
# your own ("tls CERT KEY") or a DNS module; Caddy sets X-Forwarded-* itself.
http://*.DOMAIN {
    reverse_proxy LISTEN {
        flush_interval -1
    }
}
`,
}

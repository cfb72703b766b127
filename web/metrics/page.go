package metrics

import (
	"strconv"
	"strings"
)

// Family is one metric: its name, what it is, and its labels in their order.
type Family struct {
	Name   string
	Type   string // gauge, counter or histogram
	Help   string
	Labels []string
}

// Families are all of them, in the order of the page.
var Families = []Family{
	{"berth_info", "gauge", "1, with the version of berth.", []string{"version"}},
	{"berth_app_info", "gauge", "1, with what an application is.", []string{"app", "name", "type", "lang"}},
	{"berth_app_state", "gauge", "1 for the state of an application, 0 for the others.", []string{"app", "state"}},
	{"berth_app_wanted", "gauge", "1 if the owner of an application wants it online.", []string{"app"}},
	{"berth_app_starts_total", "counter", "Starts of an application, by berth and by people, since it was made.", []string{"app"}},
	{"berth_app_automatic_starts", "gauge", "Starts of an application by berth alone in the last 24 hours.", []string{"app"}},
	{"berth_app_exits_total", "counter", "Ends of an application's program since berth began, by reason: asked, ended, crashed, memory, host_memory, machine.", []string{"app", "reason"}},
	{"berth_app_start_time_seconds", "gauge", "When the program of an application began, since the epoch.", []string{"app"}},
	{"berth_app_memory_bytes", "gauge", "Memory of an application, without caches of files that are idle.", []string{"app"}},
	{"berth_app_memory_limit_bytes", "gauge", "RAM of an application.", []string{"app"}},
	{"berth_app_cpu_seconds_total", "counter", "Processor time of an application's program since it began.", []string{"app"}},
	{"berth_app_network_receive_bytes_total", "counter", "Bytes that an application's program has received since it began.", []string{"app"}},
	{"berth_app_network_transmit_bytes_total", "counter", "Bytes that an application's program has sent since it began.", []string{"app"}},
	{"berth_app_disk_bytes", "gauge", "Disk space of an application's files when they were last measured.", []string{"app"}},
	{"berth_site_requests_total", "counter", "Answers of a site since berth began, by the first digit of their status.", []string{"app", "class"}},
	{"berth_site_request_duration_seconds", "histogram", "How long a site's answers took, without WebSockets.", []string{"app"}},
	{"berth_deploys_total", "counter", "Deployments since berth began, by kind and result: done or failed.", []string{"kind", "result"}},
	{"berth_builds_total", "counter", "Builds that have begun since berth began.", nil},
	{"berth_notifications", "gauge", "Messages to channels that are remembered, by state: waiting, sent or failed.", []string{"state"}},
	{"berth_apps", "gauge", "Applications.", nil},
	{"berth_apps_memory_limit_bytes", "gauge", "RAM of everything that runs.", nil},
	{"berth_apps_memory_capacity_bytes", "gauge", "RAM that everything that runs may have.", nil},
	{"berth_disk_records_behind", "gauge", "Applications of which something waits for the disk to be recorded.", nil},
	{"berth_host_memory_bytes", "gauge", "RAM of the host.", nil},
	{"berth_host_memory_available_bytes", "gauge", "RAM of the host that programs can still have.", nil},
	{"berth_host_memory_short", "gauge", "1 while the host is short of memory, and builds and starts wait.", nil},
	{"berth_host_disk_bytes", "gauge", "Size of the file system of the data directory.", nil},
	{"berth_host_disk_available_bytes", "gauge", "What is left of it.", nil},
	{"process_cpu_seconds_total", "counter", "Processor time of berth itself.", nil},
	{"process_resident_memory_bytes", "gauge", "Memory of berth itself.", nil},
	{"process_open_fds", "gauge", "Open file descriptors of berth itself.", nil},
	{"process_max_fds", "gauge", "File descriptors that berth itself may have.", nil},
	{"process_start_time_seconds", "gauge", "When berth began, since the epoch.", nil},
	{"go_goroutines", "gauge", "Goroutines of berth.", nil},
}

// page writes families in the text format. A family without a sample is left out.
type page struct {
	b       strings.Builder
	samples map[string]*strings.Builder
	labels  map[string][]string
}

func newPage() *page {
	p := &page{samples: map[string]*strings.Builder{}, labels: map[string][]string{}}
	for _, f := range Families {
		p.labels[f.Name] = f.Labels
	}
	return p
}

// add writes one sample. values are those of the family's labels, in their order.
func (p *page) add(name string, value float64, values ...string) {
	p.sample(name, name, value, p.labels[name], values)
}

// sample writes one of family, which may have a suffix and more labels in its name.
func (p *page) sample(family, name string, value float64, labels, values []string) {
	b := p.samples[family]
	if b == nil {
		b = &strings.Builder{}
		p.samples[family] = b
	}
	b.WriteString(name)
	for i, label := range labels {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(label)
		b.WriteString(`="`)
		b.WriteString(escaped.Replace(strings.ToValidUTF8(values[i], "�")))
		b.WriteByte('"')
	}
	if len(labels) > 0 {
		b.WriteByte('}')
	}
	b.WriteByte(' ')
	b.WriteString(strconv.FormatFloat(value, 'g', -1, 64))
	b.WriteByte('\n')
}

// escaped is what a label value is written with.
var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// histogram writes one: counts has how many were up to each of Buckets, and then all others.
func (p *page) histogram(name string, s Traffic, app string) {
	var sum uint64
	for i, n := range s.Buckets {
		sum += n
		le := "+Inf"
		if i < len(Buckets) {
			le = strconv.FormatFloat(Buckets[i].Seconds(), 'g', -1, 64)
		}
		p.sample(name, name+"_bucket", float64(sum), []string{"app", "le"}, []string{app, le})
	}
	p.sample(name, name+"_sum", s.Took.Seconds(), []string{"app"}, []string{app})
	p.sample(name, name+"_count", float64(sum), []string{"app"}, []string{app})
}

func (p *page) flag(name string, is bool, values ...string) {
	value := 0.0
	if is {
		value = 1
	}
	p.add(name, value, values...)
}

// String is the page.
func (p *page) String() string {
	p.b.Reset()
	for _, f := range Families {
		if s := p.samples[f.Name]; s != nil {
			p.b.WriteString("# HELP " + f.Name + " " + f.Help + "\n# TYPE " + f.Name + " " + f.Type + "\n")
			p.b.WriteString(s.String())
		}
	}
	return p.b.String()
}

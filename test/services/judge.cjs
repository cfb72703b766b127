// Verifies a request by the library of Standard Webhooks: { secret, headers, body } on standard input.
const { Webhook } = require("standardwebhooks");
const { secret, headers, body } = JSON.parse(require("fs").readFileSync(0, "utf8"));
try {
  console.log("verified", new Webhook(secret).verify(body, headers).type);
} catch (why) {
  console.log("refused", why.message);
}

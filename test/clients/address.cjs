// Loaded before the command line client: the base address is the only thing
// that a test changes in it.
const { createRequire } = require("node:module");
const require_ = createRequire(require.resolve("discloud-cli/package.json", { paths: [process.env.CLIENTS] }));
require_("@discloudapp/api-types/v2").RouteBases.api = process.env.BASE + "/v2";

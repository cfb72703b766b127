// Whatever a site's page does with its program, at once. The test reads result.
const result = {events: []};
const web = new WebSocket(`${location.protocol.replace("http", "ws")}//${location.host}/echo`);
web.onopen = () => web.send("over the wire");
web.onmessage = (m) => { result.socket = m.data; web.close(1000); };
web.onclose = (e) => { result.closed = e.code; };
const stream = new EventSource("/events");
stream.onmessage = (m) => { if (result.events.push(m.data) === 3) stream.close(); };
fetch("/length", {method: "POST", body: new Uint8Array(3_000_000)}).then((r) => r.text()).then((text) => { result.length = text; });
fetch("/who").then((r) => r.text()).then((text) => { result.who = document.body.textContent = text; });

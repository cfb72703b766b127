package e2e

import (
	"regexp"
	"strconv"
	"testing"

	"berth/test/harness"
)

// A program whose runtime ends it because its heap is full was not killed for its RAM, and is not
// told as that: the log, the answer and the history say which heap, and how much it had. What the
// owner has set wins.
func TestHeapFull(t *testing.T) {
	t.Parallel()
	d := launch(t)
	owner := d.account("ana", 1000)
	const leak = "console.log(process.env.NODE_OPTIONS)\nconst all = []\nsetInterval(() => { for (let i = 0; i < 200; i++) all.push({ at: Date.now(), text: Buffer.alloc(10000, 'x').toString('latin1') }) }, 20)\n"
	for name, tt := range map[string]struct {
		bot  harness.Files
		log  []string
		heap string
		most int // MB that it had
	}{
		"Node.js":   {harness.NodeBot(leak, "RAM=100"), []string{"--max-old-space-size=68", "its JavaScript heap was full, ", " of 100 MB (exit code 134", "it stays offline: give it more RAM, keep less in memory, set NODE_OPTIONS"}, "JavaScript", 70},
		"its owner": {harness.NodeBot(leak, "RAM=100", "START=node --max-old-space-size=40 index.js"), []string{"its JavaScript heap was full, "}, "JavaScript", 45},
		"PHP": {
			harness.Files{"discloud.config": harness.Config("MAIN=main.php", "RAM=64"), "main.php": "<?php $all = []; while (true) $all[] = str_repeat('x', 10000);"},
			[]string{"Allowed memory size", "its PHP heap was full, 51 of 64 MB (exit code 255"},
			"PHP", 51,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "PHP" {
				harness.Needs(t, "php")
			}
			c := owner.in(t)
			a := c.Post(tt.bot.Zip()).Want(200)
			id := a.Text("app.id")
			for _, line := range tt.log {
				c.UntilLog(id, line)
			}
			c.Until(id, "apps.online", false, "apps.ramKilled", false)
			body := string(c.Get("/app/" + id + "/events").Want(200).Body)
			found := regexp.MustCompile(`"ramKilled":false,"hostRamKilled":false,"heapFull":"(\w+)","heapMb":(\d+)`).FindStringSubmatch(body)
			if found == nil || found[1] != tt.heap {
				t.Fatalf("the history has %s", body)
			}
			if had, _ := strconv.Atoi(found[2]); had < 20 || had > tt.most {
				t.Errorf("the heap had %d MB", had)
			}
		})
	}
}

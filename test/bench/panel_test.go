package main

import "testing"

// What the test in Chromium prints becomes rows; anything else is an error.
func TestPanelRows(t *testing.T) {
	rows, err := panelRows([]byte("hello\nmeasured\tpanel, a page: requests\t7\nmeasured\tpanel, a page: KB\t120.5\n" +
		"measured\tpanel, a page: first paint in ms\t80 100 90\nmeasured\tpanel, nobody: CPU in 60 s in ms\t10\nok\n"))
	want := "| measure | berth | aim | PM2 | supervisord | reference |\n|---|---|---|---|---|---|\n" +
		"| panel, a page: requests | 7 | | | | |\n| panel, a page: weight | 120 KB | under 60 KB: **beyond** | | | |\n" +
		"| panel, a page: first paint | 90 ms (80 to 100) | under 500 ms: within | | | |\n| panel, nobody: CPU in 60 s | 10 ms | | | | |\n"
	if got := table(rows); err != nil || got != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
	}
	for _, bad := range []string{"", "ok", "measured\tpanel: KB\tmany"} {
		if rows, err := panelRows([]byte(bad)); err == nil {
			t.Errorf("%q becomes %v", bad, rows)
		}
	}
}

package proxy

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// Answers are counted by class and by how long they took; a WebSocket by class alone.
func TestTraffic(t *testing.T) {
	traffic := Traffic{Bounds: []time.Duration{10 * time.Millisecond, time.Second}}
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 100 {
				traffic.count("shop", 200, 10*time.Millisecond)
				traffic.count("shop", 404, 11*time.Millisecond)
				traffic.count("shop", 502, time.Minute)
				traffic.count("shop", 0, time.Millisecond) // the visitor went
				traffic.count("shop", 101, time.Hour)
				traffic.count("blog", 999, time.Millisecond) // no program can answer so
			}
		})
	}
	work.Wait()
	found := map[string]SiteTraffic{}
	traffic.Each(func(id string, s SiteTraffic) { found[id] = s })
	shop := found["shop"]
	if len(found) != 2 || shop.Classes != [5]uint64{800, 800, 0, 1600, 800} || !slices.Equal(shop.Took, []uint64{1600, 800, 800}) ||
		shop.Sum != 800*(time.Minute+22*time.Millisecond) {
		t.Errorf("%+v", found)
	}
	if blog := found["blog"]; blog.Classes[4] != 800 {
		t.Errorf("%+v", blog)
	}
	traffic.Forget("shop")
	traffic.Forget("shop")
	traffic.Each(func(id string, _ SiteTraffic) {
		if id != "blog" {
			t.Errorf("%s is there", id)
		}
	})
}

// What a proxy answers is counted, whoever answered: the program, or berth for it.
func TestProxyCounts(t *testing.T) {
	w := newWorld(t)
	w.proxy.Traffic = &Traffic{Bounds: []time.Duration{time.Minute}}
	w.serve("shop", func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/none" {
			rw.WriteHeader(http.StatusNotFound)
		}
	})
	w.set(Site{ID: "off", State: Offline})
	for host, path := range map[string]string{shop: "/", "off." + domain: "/", "nobody." + domain: "/"} {
		w.ask(http.MethodGet, host, path, nil)
	}
	w.ask(http.MethodGet, shop, "/none", nil)
	found := func(id string) (s SiteTraffic, all int) {
		w.proxy.Traffic.Each(func(is string, one SiteTraffic) {
			all++
			if is == id {
				s = one
			}
		})
		return s, all
	}
	eventually(t, "they are counted", func() bool { // after the answer, which the visitor has
		shop, all := found("shop")
		off, _ := found("off")
		return all == 2 && shop.Classes == [5]uint64{0, 1, 0, 1, 0} && off.Classes == [5]uint64{0, 0, 0, 0, 1} && shop.Took[0] == 2
	})
}

func BenchmarkTraffic(b *testing.B) {
	traffic := Traffic{Bounds: []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, time.Second}}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			traffic.count("shop", 200, 20*time.Millisecond)
		}
	})
}

// Who counts now and then hears of the first answer since.
func TestTrafficBegins(t *testing.T) {
	begun := 0
	traffic := Traffic{Begins: func() { begun++ }}
	for range 3 {
		for range 5 {
			traffic.count("shop", 200, 0)
		}
		traffic.Rest()
		traffic.Rest()
	}
	if begun != 3 {
		t.Errorf("it began %d times", begun)
	}
}

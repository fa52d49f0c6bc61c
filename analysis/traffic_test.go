// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/kvbench/kvbench/internal/store"
)

// sent is what a worker's driver sends in every interval of a fixture.
var sent = []store.Traffic{
	{Fallbacks: map[string]int64{"unknown_region": 2}, Unsent: 2},
	{Store: "10.0.1.1:20160", Messages: 100, Commands: 1040, Sizes: map[int]int64{1: 60, 2: 30, 92: 10}},
	{Store: "10.0.1.2:20160", Messages: 8, Commands: 8, Sizes: map[int]int64{1: 8}, Fallbacks: map[string]int64{"not_leader": 3, "busy": 1}, Breaks: 1},
}

// What the workers' drivers sent within the window is merged, by store.
func TestTraffic(t *testing.T) {
	t.Parallel()
	f := &fixture{workers: 3, warmup: 2 * time.Second, window: 4 * time.Second, achieved: 300, sent: sent}
	p := report(t, f.write(t))
	tr := p.Traffic
	const intervals = 4 * 3
	if tr == nil || len(tr.Stores) != 2 {
		t.Fatalf("traffic %+v", tr)
	}
	if tr.MessagesPS != 108*3 || tr.CommandsPS != 1048*3 || tr.Breaks != intervals {
		t.Errorf("over all stores: %+v", tr.Sent)
	}
	if want := (PerMessage{Mean: 1048. / 108, P50: 1, P99: 92, Max: 92}); *tr.PerMessage != want {
		t.Errorf("commands per message %+v, want %+v", *tr.PerMessage, want)
	}
	share := func(n float64) float64 { return n / (1048 + 2) }
	want := []Fallback{{"not_leader", 3 * intervals, share(3)}, {"unknown_region", 2 * intervals, share(2)}, {"busy", intervals, share(1)}}
	for i, d := range tr.Fallbacks {
		if i >= len(want) || d.Cause != want[i].Cause || d.Count != want[i].Count || math.Abs(d.Share-want[i].Share) > 1e-12 {
			t.Errorf("fallbacks %+v, want %+v", tr.Fallbacks, want)
			break
		}
	}
	if s := tr.Stores[1]; s.Store != "10.0.1.2:20160" || !reflect.DeepEqual(*s.PerMessage, PerMessage{1, 1, 1, 1}) || s.Breaks != intervals || len(s.Fallbacks) != 2 {
		t.Errorf("second store: %+v", s)
	}
}

// Drivers that do not tell what they send are not reported to have sent nothing.
func TestNoTraffic(t *testing.T) {
	t.Parallel()
	p := report(t, (&fixture{window: time.Second, achieved: 300}).write(t))
	if p.Traffic != nil {
		t.Errorf("traffic %+v", p.Traffic)
	}
	// Nothing but fallbacks: there is no message to speak of.
	p = report(t, (&fixture{window: time.Second, achieved: 300, sent: sent[:1]}).write(t))
	if p.Traffic == nil || p.Traffic.PerMessage != nil || len(p.Traffic.Fallbacks) != 1 || p.Traffic.Fallbacks[0].Share != 1 {
		t.Errorf("traffic %+v", p.Traffic)
	}
}

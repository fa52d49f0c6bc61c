// SPDX-License-Identifier: Apache-2.0

package playground

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
)

func TestAdmin(t *testing.T) {
	c := start(t, Options{Regions: 2, AdminAddr: "127.0.0.1:0"})
	ctl, err := Control(c.AdminAddr(), TLS{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	state := func() State {
		st, err := ctl.State(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	if st := state(); st.ClusterID != c.ClusterID() || len(st.Stores) != 3 || len(st.Regions) != 2 || !st.PD.Up {
		t.Fatalf("state: %+v", st)
	}
	for _, tt := range []struct {
		name, params, done string
		check              func(State) bool
	}{
		{"split", "key=a", "new region", func(s State) bool { return len(s.Regions) == 3 && s.Regions[1].Start == "a" }},
		{"merge", "key=0", "merged into region", func(s State) bool { return len(s.Regions) == 2 }},
		{"move-leaders", "", "leaders moved: 2", nil},
		{"move-leaders", "region=4&to=1", "leaders moved: 1", func(s State) bool { return s.Regions[0].Leader == 1 || s.Regions[1].Leader == 1 }},
		{"stop-store", "id=3", "store 3 is down", func(s State) bool { return !s.Stores[2].Up }},
		{"start-store", "id=3", "store 3 is up", func(s State) bool { return s.Stores[2].Up }},
		{"stall", "id=1&for=1h", "stalled for 1h", func(s State) bool { return s.Stores[0].Disturbance.StalledForMS > 0 }},
		{"slow", "id=1&by=20ms", "slower by 20ms", func(s State) bool {
			return s.Stores[0].Disturbance.SlowByMS == 20 && s.Stores[0].Disturbance.SlowShare == 1
		}},
		{"queue", "id=3&service-time=4ms&servers=2&service-spread=exponential", "2 servers, 4ms (exponential) for a command: 500 commands a second", func(s State) bool {
			q := s.Stores[2].Queue
			return q != nil && q.ServiceMS == 4 && q.Spread == Exponential && q.Servers == 2 && q.Capacity == 500 && q.WaitMS == 0 && s.Stores[2].Disturbance == nil
		}},
		{"queue", "id=3&service-time=0s", "no queue", func(s State) bool { return s.Stores[2].Queue == nil }},
		{"queue", "id=3&service-time=1ms", "1 server, 1ms (constant) for a command: 1000 commands a second", nil},
		{"busy", "id=2&share=0.25", "0.25", func(s State) bool { return s.Stores[1].Disturbance.BusyShare == 0.25 }},
		{"raw-error", "id=2&share=1&text=no+disk", "1", func(s State) bool { return s.Stores[1].Disturbance.ErrorText == "no disk" }},
		{"lose", "id=2&share=0.5&count=7", "lose: a share of 0.5 of the writes, 7 times", func(s State) bool { return s.Stores[1].Disturbance.SilentShares["lose"] == 0.5 }},
		{"lose", "id=2&share=0", "lose", func(s State) bool { return len(s.Stores[1].Disturbance.SilentShares) == 0 }},
		{"swallow", "id=2", "swallow: a share of 1 of the rows", func(s State) bool { return s.Stores[1].Disturbance.SilentShares["swallow"] == 1 }},
		{"reset", "id=1", "connections reset: 0", nil},
		{"stop-pd", "", "PD is down", func(s State) bool { return !s.PD.Up }},
		{"start-pd", "", "PD is up", func(s State) bool { return s.PD.Up }},
		{"restore", "", "all is well", func(s State) bool {
			return s.Stores[0].Disturbance == nil && s.Stores[1].Disturbance == nil && s.Stores[2].Queue == nil
		}},
	} {
		params, err := url.ParseQuery(strings.Replace(tt.params, "region=4", "region="+firstRegion(c), 1))
		if err != nil {
			t.Fatal(err)
		}
		done, err := ctl.Do(ctx, tt.name, params)
		if err != nil || !strings.Contains(done, tt.done) {
			t.Errorf("%s %s: %q, %v", tt.name, tt.params, done, err)
		}
		if tt.check != nil && !tt.check(state()) {
			t.Errorf("%s %s: state is %+v", tt.name, tt.params, state())
		}
	}
	for _, tt := range []struct{ name, params, want string }{
		{"nothing", "", `unknown disturbance "nothing": want one of split, `},
		{"split", "", `split: parameter "key" (a client's key) is missing`},
		{"split", "key=a&keyspace=x", "keyspaces need API version V2"},
		{"stop-store", "id=9", "store 9 does not exist: want 1 to 3"},
		{"stop-store", "id=one", `parameter id="one": want a whole number`},
		{"stop-store", "id=1&id=2", `parameter "id" given 2 times`},
		{"stop-store", "id=1&force=1", `unknown parameter "force"`},
		{"stall", "id=1&for=3", `parameter for="3": want a duration`},
		{"busy", "id=1&share=2", "share 2: want 0 to 1"},
		{"busy", "id=1&share=NaN", "want 0 to 1"},
		{"swap", "id=1&count=-1", `count="-1": want a whole number`},
		{"move-leaders", "to=1", "to needs region"},
		{"queue", "id=1", `parameter "service-time"`},
		{"queue", "id=1&service-time=-1s", "service time of -1s: want up to 1h0m0s"},
		{"queue", "id=1&service-time=1s&servers=0", "0 servers serve nothing"},
		{"queue", "id=1&service-time=1s&servers=1001", "1001 servers: want 1 to 1000"},
		{"queue", "id=1&service-time=1s&servers=18446744073709551615", "want 1 to 1000"},
		{"queue", "id=1&service-time=1s&service-spread=normal", `spread "normal" of service times: want constant or exponential`},
	} {
		params, err := url.ParseQuery(tt.params)
		if err != nil {
			t.Fatal(err)
		}
		if done, err := ctl.Do(ctx, tt.name, params); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: %q, %v; want %q", tt.name, tt.params, done, err, tt.want)
		}
	}
	if st := state(); !st.Stores[0].Up {
		t.Error("a refused disturbance took effect")
	}
}

func firstRegion(c *Cluster) string {
	for _, r := range c.State().Regions {
		return strconv.FormatUint(r.ID, 10)
	}
	return ""
}

func TestDisturbancesAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Disturbances() {
		if d.Name == "" || d.Doc == "" || seen[d.Name] {
			t.Errorf("disturbance %+v", d)
		}
		seen[d.Name] = true
		for _, p := range d.Params {
			if p.Name == "" || p.Doc == "" || p.Required && p.Default != "" {
				t.Errorf("%s: parameter %+v", d.Name, p)
			}
		}
	}
}

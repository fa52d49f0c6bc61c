// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime/debug"
	"testing"
)

func TestBuild(t *testing.T) {
	t.Parallel()
	checkout := []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.time", Value: "2026-03-04T05:06:07Z"}, {Key: "vcs.modified", Value: "true"},
	}
	for _, test := range []struct {
		linked, module string
		settings       []debug.BuildSetting
		want           build
	}{
		{"", "", nil, build{Version: "dev"}},
		{"", "(devel)", nil, build{Version: "dev"}},
		{"", "v1.2.3", nil, build{Version: "v1.2.3"}}, // go install …@latest
		{"v1.2.3", "(devel)", nil, build{Version: "v1.2.3"}},
		{"v1.2.3-4-g0123abc", "v1.2.4-0.20260304050607-0123abcd+dirty", checkout,
			build{Version: "v1.2.3-4-g0123abc", Commit: "0123abcd", Modified: true, Date: "2026-03-04T05:06:07Z"}},
	} {
		info := &debug.BuildInfo{Settings: test.settings, Main: debug.Module{Version: test.module}}
		got := newBuild(test.linked, info)
		if got.Go == "" || got.Platform == "" {
			t.Errorf("%+v", got)
		}
		if got.Go, got.Platform = "", ""; got != test.want {
			t.Errorf("linked %q, module %q: got %+v, want %+v", test.linked, test.module, got, test.want)
		}
	}
}

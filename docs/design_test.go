// SPDX-License-Identifier: Apache-2.0

// Package docs holds what design.md says of the packages to what they are.
package docs

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kvbench/kvbench/"

// layers are the packages from the ground up. A package imports only what lies in a layer below its
// own. What nothing is built on stands as high as it can.
var layers = [][]string{
	{"internal/plainfile", "internal/printable"},
	{"internal/tlsfile", "internal/plainyaml"},
	{"workloads", "internal/clock", "internal/pace", "internal/ledger", "internal/units", "internal/exitcode", "internal/atomicfile", "internal/dirlock", "internal/prices",
		"internal/control/workerpb", "internal/store/stream/quiet", "analysis/stats", "analysis/dips", "analysis/internal/golden", "internal/peers/bare",
		"deploy/monitoring", "k8s", "internal/playground"},
	{"internal/spec", "internal/store", "analysis/plan", "internal/control", "internal/kube", "internal/search", "internal/peers"},
	{"internal/workload", "internal/store/kit", "internal/store/memory", "internal/servermetrics"},
	{"internal/measure", "internal/manifest", "internal/store/tikv"},
	{"internal/objective", "analysis/availability"},
	{"internal/lane", "internal/probe", "internal/results", "analysis/foreign", "internal/metrics", "internal/store/rawkv", "internal/store/txnkv", "internal/store/stream", "internal/store/storetest"},
	{"internal/worker", "internal/coordinator", "internal/study", "analysis", "analysis/internal/largerun"},
	{"internal/localfleet", "internal/liveview", "analysis/render/chart"},
	{"analysis/render"},
	{"cmd/kvbench", "cmd/analyzer"},
}

// never are packages, with all that they import, that must not lead to others.
var never = map[string][]string{
	"cmd/analyzer":         {"google.golang.org/grpc", "github.com/tikv/client-go/v2/rawkv", "k8s.io/client-go/rest"},
	"internal/coordinator": {module + "internal/worker", "github.com/tikv/client-go/v2/rawkv"},
	"internal/workload":    {module + "internal/measure", "google.golang.org/grpc"},
	"internal/store/rawkv": {module + "internal/store/stream", module + "internal/measure"},
	"internal/store/tikv":  {module + "internal/store/rawkv", module + "internal/store/stream"},
	"internal/store/txnkv": {module + "internal/store/rawkv", module + "internal/store/stream", module + "internal/measure"},
	"internal/lane":        {module + "internal/store/kit", "google.golang.org/grpc"},
}

// goList returns, for each package, the list that the template makes of it.
func goList(t *testing.T, template string, packages ...string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-f", "{{.ImportPath}} {{join " + template + ` " "}}`}, packages...)...)
	cmd.Dir, cmd.Stderr = "..", os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		listed[strings.TrimPrefix(f[0], module)] = f[1:]
	}
	return listed
}

func TestNoPackageImportsUpward(t *testing.T) {
	height := make(map[string]int)
	for i, layer := range layers {
		for _, p := range layer {
			height[p] = i
		}
	}
	for p, imports := range goList(t, ".Imports", "./...") {
		if p == "docs" {
			continue
		}
		own, ok := height[p]
		if !ok {
			t.Errorf("package %s has no layer: give it one", p)
		}
		delete(height, p)
		for _, i := range imports {
			below, ours := strings.CutPrefix(i, module)
			if !ours {
				continue
			}
			if at := slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, below) }); at >= own {
				t.Errorf("%s (layer %d) imports %s (layer %d)", p, own, below, at)
			}
		}
	}
	for p := range height {
		t.Errorf("there is no package %s", p)
	}
}

func TestWhatMustNotBeReached(t *testing.T) {
	for p, forbidden := range never {
		deps := goList(t, ".Deps", "./"+p)[p]
		for _, f := range forbidden {
			if slices.Contains(deps, f) {
				t.Errorf("%s is built on %s", p, f)
			}
		}
	}
}

// The rooms that design.md names are there, and each package is one or in one.
func TestRooms(t *testing.T) {
	design, err := os.ReadFile("design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rooms, _ := strings.Cut(string(design), "\n## Rooms\n")
	rooms, _, _ = strings.Cut(rooms, "\n**")
	named := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^    ([a-z0-9/]+?)/? +\S`).FindAllStringSubmatch(rooms, -1) {
		named[m[1]] = true
		if _, err := os.Stat("../" + m[1]); err != nil {
			t.Errorf("design.md names a room that is not there: %v", err)
		}
	}
	for p := range goList(t, ".Imports", "./...") {
		room := p
		for !named[room] && strings.Contains(room, "/") {
			room = room[:strings.LastIndex(room, "/")]
		}
		if !named[room] && p != "docs" {
			t.Errorf("design.md has no room for package %s", p)
		}
	}
}

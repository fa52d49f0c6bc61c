// SPDX-License-Identifier: Apache-2.0

// Package browsertest looks at HTML reports as people do: in a browser. It is run by make test-browser.
package browsertest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kvbench/kvbench/analysis"
	"github.com/kvbench/kvbench/analysis/internal/largerun"
	"github.com/kvbench/kvbench/analysis/render"
	"github.com/kvbench/kvbench/internal/units"
)

// browser is a headless Chromium, and all that it has complained of.
type browser struct {
	context.Context
	mu         sync.Mutex
	complaints []string
}

// open starts the browser at a page; without one on this machine the test is skipped.
func open(t *testing.T, url string) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("no Chromium on this machine: install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox)
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	b := &browser{Context: ctx}
	b.do(t, chromedp.Navigate("about:blank")) // starts it
	var listening sync.WaitGroup
	t.Cleanup(listening.Wait)
	t.Cleanup(cancel)
	listen(&listening, b, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) string { return e.ExceptionDetails.Text })
	listen(&listening, b, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) string { return fmt.Sprint(e.Type, " ", len(e.Args)) })
	listen(&listening, b, log.EntryAdded, func(e log.EventEntryAdded) string { return e.Entry.Text })
	b.do(t, chromedp.Navigate(url))
	return b
}

// listen keeps what the browser has to say of one sort, until its context ends.
func listen[E any](wg *sync.WaitGroup, b *browser, event cdp.Event[E], text func(E) string) {
	events := chromedp.Events(b, event)
	wg.Go(func() {
		for e, err := range events {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.complaints = append(b.complaints, event.Method+" "+text(e))
			b.mu.Unlock()
		}
	})
}

// quiet fails the test if the browser has complained.
func (b *browser) quiet(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		t.Errorf("the browser complains: %q", b.complaints)
	}
}

func (b *browser) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		t.Fatal(err)
	}
}

// call sends a command of the protocol, and returns its result.
func call[P, R any](t *testing.T, b *browser, command cdp.Command[P, R], params P) R {
	t.Helper()
	result, err := chromedp.Run(b, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, command, params)
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// eval returns what an expression is in the page.
func eval[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// size makes the window as wide as asked, on screen or on paper, light or dark.
func (b *browser) size(t *testing.T, width int64, medium, scheme string) {
	t.Helper()
	call(t, b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// keep writes a picture into the folder that KVBENCH_SCREENSHOTS names, if it names one.
func (b *browser) keep(t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv("KVBENCH_SCREENSHOTS")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(b, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o666); err != nil {
		t.Fatal(err)
	}
}

// write makes the page of some runs, and returns the first's report.
func write(t *testing.T, runs ...largerun.Run) (url string, first *analysis.Report) {
	t.Helper()
	out := t.TempDir()
	for _, r := range runs {
		if _, err := r.Write(out); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := analysis.LoadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	doc := analysis.Summarize(loaded...)
	var text bytes.Buffer
	if err := render.Document(&text, doc, render.HTML, render.Style{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return "file://" + file, doc.Runs[0]
}

var disturbed = largerun.Run{ID: "20260314-150926-c0ffee", Workers: 4, Seconds: 60, PerSecond: 600, Disturbed: true, Event: "killed a store", Servers: 3, Properties: map[string]string{"workload": "core", "note": strings.Repeat("long", 60)}}

// Values are read out as the JSON has them, by pointer and by keys; series go off and on; a part of the time is looked at closer,
// in all charts of the run.
func TestReading(t *testing.T) {
	url, r := write(t, disturbed)
	b := open(t, url)
	b.size(t, 1200, "screen", "light")
	const rates, plot = "#r1-1", "#r1-1 .plot > svg"
	said := func(figure string) string {
		return eval[string](t, b, "document.querySelector('"+figure+" output').textContent")
	}

	b.do(t, chromedp.Focus(plot))
	for i := range r.Series {
		b.do(t, chromedp.KeyEvent(kb.ArrowRight))
		p := &r.Series[i]
		want := fmt.Sprintf("%s s: answered %s · target %s", units.Number(p.S), units.Rate(p.OpsPerS), units.Rate(p.Target))
		if got := said(rates); !strings.HasPrefix(got, want) {
			t.Fatalf("point %d: %q, want %q", i, got, want)
		}
	}
	response := eval[string](t, b, "[...document.querySelectorAll('.chart')].find(c => c.textContent.includes('Response time, all')).id")
	b.do(t, chromedp.Focus("#"+response+" svg[role=img]"), chromedp.KeyEvent(kb.Home))
	for i := range r.Series {
		p := &r.Series[i]
		want := "p50 not measured"
		if p.ResponseP50 > 0 {
			want = "p50 " + units.Micros(float64(p.ResponseP50)) + " · p99 " + units.Micros(float64(p.ResponseP99))
		}
		if got := said("#" + response); !strings.Contains(got, want) {
			t.Fatalf("point %d: %q, want %q", i, got, want)
		}
		b.do(t, chromedp.KeyEvent(kb.ArrowRight))
	}
	if n := eval[int](t, b, "document.querySelectorAll('.cursor').length"); n < 8 {
		t.Errorf("the cursor is in %d charts", n)
	}

	// The pointer is where it is in the chart, and an event that is near is named.
	box := eval[[]float64](t, b, "(e => { e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })(document.querySelector('"+plot+"'))")
	at := func(share float64) (x, y float64) { return box[0] + share*box[2], box[1] + box[3]/2 }
	x, y := at(0.5)
	b.do(t, chromedp.MouseEvent("mouseMoved", x, y))
	if got := said(rates); !strings.HasPrefix(got, "30 s: ") || !strings.Contains(got, "event 2 note killed a store") {
		t.Errorf("in the midst: %q", got)
	}
	b.do(t, chromedp.Click(rates+" [data-s='1']"))
	if eval[string](t, b, "getComputedStyle(document.querySelector('"+rates+" .s1')).display") != "none" {
		t.Error("the target is still there")
	}
	b.do(t, chromedp.MouseEvent("mouseMoved", x, y))
	if got := said(rates); strings.Contains(got, " · target") {
		t.Errorf("of a line that is off: %q", got)
	}

	x, y = at(0.25)
	b.do(t, chromedp.MouseEvent("mousePressed", x, y, chromedp.ButtonLeft))
	x, y = at(0.75)
	b.do(t, chromedp.MouseEvent("mouseMoved", x, y, chromedp.ButtonLeft), chromedp.MouseEvent("mouseReleased", x, y, chromedp.ButtonLeft))
	for _, chart := range []string{plot, "#" + response + " .plot > svg"} {
		if got := eval[[]float64](t, b, "document.querySelector('"+chart+"').getAttribute('viewBox').split(' ').map(Number)"); math.Abs(got[0]-750) > 5 || math.Abs(got[2]-1500) > 5 { // a pixel is 3
			t.Errorf("%s shows %v, want 750 to 2250 of 3000", chart, got)
		}
	}
	b.do(t, chromedp.Focus(plot), chromedp.KeyEvent(kb.Escape))
	if got := eval[string](t, b, "document.querySelector('"+plot+"').getAttribute('viewBox')"); got != "0 0 3000 1000" {
		t.Errorf("after Escape it shows %s", got)
	}
	b.quiet(t)
}

// Nothing is cut on a telephone, on a screen, or on paper; each chart has a name, a description and a place in the order of keys.
func TestNothingIsCut(t *testing.T) {
	second := disturbed
	second.ID, second.Disturbed = "20260314-160926-c0ffee", false
	for name, runs := range map[string][]largerun.Run{"one": {disturbed}, "two": {disturbed, second}} {
		url, _ := write(t, runs...)
		b := open(t, url)
		for _, v := range []struct {
			width          int64
			medium, scheme string
		}{{400, "screen", "light"}, {400, "screen", "dark"}, {1200, "screen", "light"}, {1200, "screen", "dark"}, {700, "print", "light"}} {
			b.size(t, v.width, v.medium, v.scheme)
			what := fmt.Sprintf("%s-%s-%d-%s", name, v.medium, v.width, v.scheme)
			cut := eval[[]string](t, b, `[...document.querySelectorAll('main *')].filter(e => {
				const r = e.getBoundingClientRect();
				return r.width > 0 && r.right > innerWidth + 1 && !e.closest('svg') && !e.closest('details:not([open])') && !(e.closest('.scroll') && !matchMedia('print').matches && innerWidth > 640);
			}).map(e => e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 40)).slice(0, 5)`)
			if wide := eval[int](t, b, "document.scrollingElement.scrollWidth"); len(cut) > 0 || int64(wide) > v.width {
				t.Errorf("%s: %d wide, cut: %q", what, wide, cut)
			}
			b.keep(t, what)
		}
		unnamed := eval[[]string](t, b, `[...document.querySelectorAll('svg[role=img]')].filter(s => s.tabIndex !== 0 ||
			s.getAttribute('aria-labelledby').split(' ').some(id => !(document.getElementById(id) || {textContent: ''}).textContent.trim() && !s.querySelector('.heat'))).map(s => s.closest('figure').id)`)
		if len(unnamed) > 0 {
			t.Errorf("%s: without a name or a description: %q", name, unnamed)
		}
		if twice := eval[int](t, b, "(ids => ids.length - new Set(ids).size)([...document.querySelectorAll('[id]')].map(e => e.id))"); twice > 0 {
			t.Errorf("%s: %d ids are there twice", name, twice)
		}
		background := true
		paper := call(t, b, page.PrintToPDF, page.PrintToPDFParams{PrintBackground: &background}).Data
		if folder := os.Getenv("KVBENCH_SCREENSHOTS"); folder != "" {
			if err := os.WriteFile(filepath.Join(folder, name+".pdf"), paper, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(paper, []byte("%PDF")) {
			t.Errorf("%s: %d bytes that are no PDF", name, len(paper))
		}
		b.quiet(t)
	}
}

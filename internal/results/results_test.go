// SPDX-License-Identifier: Apache-2.0

package results

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kvbench/kvbench/internal/dirlock"
	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/store"
	"github.com/kvbench/kvbench/internal/workload"
)

// journal writes a journal of so many seconds, of which the first is warm-up,
// and returns its directory and every service time of the window.
func journal(t testing.TB, seconds int, finish bool) (dir string, service []time.Duration) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "w0")
	j, err := CreateJournal(dir, Worker{Name: "w0", Start: time.Unix(1_700_000_000, 250e6)})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	host := measure.NewHost()
	c := measure.NewCollector(measure.Config{Paced: true, Warmup: time.Second, Window: time.Duration(seconds-1) * time.Second}, 1)
	done := make(chan struct{})
	written := make(chan error)
	sent := store.Traffic{Store: "10.0.0.1:20160", Messages: 5, Commands: 12, Sizes: map[int]int64{1: 3, 4: 1, 5: 1}, Kinds: map[string]int64{"raw_get": 11},
		Fallbacks: map[string]int64{"not_leader": 2}, Unsent: 1, Breaks: 1}
	go func() {
		defer close(done)
		c.Run(func(iv *measure.Interval) {
			written <- j.Write(iv, 1000, host.Sample(), sent, store.Traffic{Store: "quiet"})
		})
	}()
	rec := c.Recorder(0)
	for s := range seconds {
		at := time.Duration(s) * time.Second
		rec.Queued(at, 3)
		rec.Skipped(at, time.Millisecond, 2, true)
		for i := range 100 {
			slot := at + time.Duration(i)*time.Millisecond
			took := time.Duration(random.IntN(5000)+1) * time.Microsecond
			res := workload.Result{RPCs: 1}
			switch i % 10 {
			case 0:
				res.Count[workload.NotFound] = 1
			case 1:
				res.Count[workload.Failed], res.Class, res.Err = 1, store.Timeout, errors.New("deadline, \"exceeded\"\nafter 1s")
			default:
				res.Count[workload.OK] = 1
			}
			res.Retries = 1
			res.Cost = &store.Cost{Transactions: 2, Timestamps: 3}
			res.Cost.Commands[store.TxnGet], res.Cost.Phases[store.Reading] = 4, took
			rec.Started(workload.Read, slot, 1)
			rec.Record(&measure.Sample{Kind: workload.Read, Result: &res, Slot: slot, Start: slot + 100*time.Microsecond,
				End: slot + 100*time.Microsecond + took, Seen: slot + 110*time.Microsecond + took})
			if s > 0 && res.Count[workload.OK] == 1 {
				service = append(service, took)
			}
		}
		for rec.Behind() {
			runtime.Gosched()
		}
		rec.Tick(at + time.Second)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
	}
	rec.Finish(time.Duration(seconds) * time.Second)
	<-done
	if finish {
		if err := j.Close(End{}); err != nil {
			t.Fatal(err)
		}
	} else if err := j.closeFiles(); err != nil {
		t.Fatal(err)
	}
	return dir, service
}

// readAll reads a journal and returns its intervals and warnings.
func readAll(t testing.TB, dir string) (ivs []*Interval, warnings []error) {
	t.Helper()
	r, err := OpenJournal(dir, func(err error) { warnings = append(warnings, err) })
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for iv, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		ivs = append(ivs, iv)
	}
	return ivs, warnings
}

func TestJournalRoundTrip(t *testing.T) {
	t.Parallel()
	dir, service := journal(t, 4, true)
	ivs, warnings := readAll(t, dir)
	if len(warnings) > 0 {
		t.Fatalf("warnings: %v", warnings)
	}
	if len(ivs) != 4 {
		t.Fatalf("%d intervals, want 4", len(ivs))
	}
	ok := measure.RowOf(workload.Read, workload.OK, 0)
	timeout := measure.RowOf(workload.Read, workload.Failed, store.Timeout)
	merged := measure.NewHDR()
	for i, iv := range ivs {
		want := span{time.Duration(i) * time.Second, time.Duration(i+1) * time.Second}
		if iv.Start != want.start || iv.End != want.end {
			t.Errorf("interval %d is [%v, %v)", i, iv.Start, iv.End)
		}
		in, out := &iv.Window, &iv.Warmup
		if i == 0 {
			in, out = out, in
		}
		if *out != (Counts{}) {
			t.Errorf("interval %d: counts on the wrong side of the warm-up: %+v", i, out)
		}
		if got := in.Rows[ok]; got != (Count{80, 80, 80, 80}) {
			t.Errorf("interval %d: ok is %+v", i, got)
		}
		if in.Rows[timeout].Operations != 10 || in.Started[workload.Read] != 100 || in.Queued != 3 || in.Skipped != 2 {
			t.Errorf("interval %d: %+v", i, in)
		}
		cost := measure.CostCounts{Batches: 100, Transactions: 200, Timestamps: 300}
		cost.Commands[store.TxnGet] = 400
		if got := in.Costs[workload.Read]; got != cost {
			t.Errorf("interval %d: transactions %+v, want %+v", i, got, cost)
		}
		if iv.OK != 80 || iv.Missing != 10 || iv.Failed != 10 || iv.Second.Started != 100 || iv.Target != 1000 {
			t.Errorf("second %d: %+v", i, iv.Second)
		}
		if iv.LagP50 != 100 || iv.LaneP99 != 10 || iv.Host.Cores < 1 {
			t.Errorf("second %d: %+v", i, iv.Second)
		}
		if len(iv.Errors) != 1 || iv.Errors[0].Class != "timeout" || iv.Errors[0].Count != 10 ||
			!reflect.DeepEqual(iv.Errors[0].Texts, []string{"deadline, \"exceeded\"\nafter 1s"}) {
			t.Errorf("second %d: errors %+v", i, iv.Errors)
		}
		if len(iv.Traffic) != 1 || iv.Traffic[0].Store != "10.0.0.1:20160" || iv.Traffic[0].Sizes[4] != 1 || iv.Traffic[0].Kinds["raw_get"] != 11 ||
			iv.Traffic[0].Fallbacks["not_leader"] != 2 || iv.Traffic[0].Commands != 12 {
			t.Errorf("second %d: traffic %+v", i, iv.Traffic)
		}
		for _, h := range iv.Histograms {
			if h.Warmup != (i == 0) {
				t.Errorf("interval %d has %v", i, h.Tag)
			}
			if h.Row == ok && h.Quantity == Service && !h.Warmup {
				h.AddTo(merged)
			}
		}
	}
	want := measure.NewHDR()
	for _, d := range service {
		want.RecordValue(d.Microseconds())
	}
	if !merged.Equals(want) {
		t.Error("the merged histogram is not that of the samples")
	}
	w, err := ReadWorker(dir)
	if err != nil || w.State != Finished || w.EndS != 4 {
		t.Errorf("worker.json: %+v, %v", w, err)
	}
}

// What the library's own log reader makes of our log.
func TestLogIsStandard(t *testing.T) {
	t.Parallel()
	dir, service := journal(t, 3, true)
	f, err := os.Open(filepath.Join(dir, HistogramsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log := hdrhistogram.NewHistogramLogReader(f)
	total, first := int64(0), int64(0)
	for {
		h, err := log.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		if h.Tag() == "READ.ok.service" {
			total += h.TotalCount()
			if first == 0 {
				first = h.StartTimeMs()
			}
		}
	}
	if total != int64(len(service)) {
		t.Errorf("%d values, want %d", total, len(service))
	}
	if want := int64(1_700_000_001_250); first != want {
		t.Errorf("first interval of the window starts at %d ms, want %d", first, want)
	}
}

// A journal cut off anywhere gives every whole interval before the cut, intact.
func TestTornJournal(t *testing.T) {
	t.Parallel()
	dir, _ := journal(t, 3, false)
	whole, _ := readAll(t, dir)
	path := filepath.Join(dir, SecondsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(text); cut >= 0; cut -= 7 {
		if err := os.WriteFile(path, text[:cut], 0o666); err != nil {
			t.Fatal(err)
		}
		ivs, warnings := readAll(t, dir)
		if want := max(0, strings.Count(string(text[:cut]), "\n")-1); len(ivs) != want {
			t.Fatalf("cut at %d: %d intervals, want %d", cut, len(ivs), want)
		}
		if torn := cut > 0 && text[cut-1] != '\n'; torn != (len(warnings) == 1) {
			t.Fatalf("cut at %d: warnings %v", cut, warnings)
		}
		for i, iv := range ivs {
			if iv.Second != whole[i].Second || iv.Window != whole[i].Window || len(iv.Histograms) != len(whole[i].Histograms) {
				t.Fatalf("cut at %d: interval %d differs", cut, i)
			}
		}
	}
}

// seconds.csv of other versions has other columns: those known are read, by name.
func TestColumnsOfOtherVersions(t *testing.T) {
	t.Parallel()
	dir, _ := journal(t, 3, false)
	whole, _ := readAll(t, dir)
	path := filepath.Join(dir, SecondsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// change rewrites the fields of every line, the header's first.
	change := func(do func(fields []string, header bool) []string) {
		t.Helper()
		var lines []string
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			lines = append(lines, strings.Join(do(strings.Split(line, ","), i == 0), ","))
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		do   func(fields []string, header bool) []string
		lost func(s *Second) // what cannot be read
	}{
		{"one fewer at the end", func(f []string, _ bool) []string { return f[:len(f)-1] }, func(s *Second) { s.Host.Runnable = 0 }},
		{"one fewer within", func(f []string, _ bool) []string { return slices.Delete(f, 3, 4) }, func(s *Second) { s.Started = 0 }},
		{"one more within", func(f []string, header bool) []string {
			if header {
				return slices.Insert(f, 2, "colour")
			}
			return slices.Insert(f, 2, "red")
		}, func(*Second) {}},
		{"another order", func(f []string, _ bool) []string { slices.Reverse(f); return f }, func(*Second) {}},
	}
	for _, tt := range tests {
		change(tt.do)
		ivs, warnings := readAll(t, dir)
		if len(ivs) != len(whole) || len(warnings) > 0 {
			t.Errorf("%s: %d intervals, want %d; warnings %v", tt.name, len(ivs), len(whole), warnings)
			continue
		}
		for i, iv := range ivs {
			want := whole[i].Second
			tt.lost(&want)
			if iv.Second != want || iv.Window != whole[i].Window {
				t.Errorf("%s: interval %d is\n%+v, want\n%+v", tt.name, i, iv.Second, want)
			}
		}
	}
	// A line without its end is no interval, and neither is any without the columns that say when.
	change(func(f []string, header bool) []string {
		if header {
			return f
		}
		return f[:len(f)-1]
	})
	if ivs, warnings := readAll(t, dir); len(ivs) != 0 || !strings.Contains(errors.Join(warnings...).Error(), "columns, want") {
		t.Errorf("short lines: %d intervals, %v", len(ivs), warnings)
	}
	change(func(f []string, _ bool) []string { return f[1:] })
	if ivs, warnings := readAll(t, dir); len(ivs) != 0 || !strings.Contains(errors.Join(warnings...).Error(), "the header has no start_s") {
		t.Errorf("no start_s: %d intervals, %v", len(ivs), warnings)
	}
}

// Histograms of another range cannot be merged without loss.
// Earlier versions did not count what was made again.
func TestCountsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]Count{"0,1,READ.ok,7,6,5": {7, 6, 5, 0}, "0,1,READ.ok,7,6,5,4": {7, 6, 5, 4}} {
		if c, err := parseCount([]byte(line)); err != nil || c.Count != want {
			t.Errorf("%s: %+v, %v", line, c.Count, err)
		}
	}
	for _, header := range []string{countsHeader, "start_s,end_s,tag,operations,batches,rpcs"} {
		if _, err := parseCount([]byte(strings.TrimSpace(header))); !errors.Is(err, errNoRecord) {
			t.Errorf("%s: %v", header, err)
		}
	}
	if _, err := parseCount([]byte("0,1,READ.ok,7,6")); err == nil {
		t.Error("a line without requests was read")
	}
}

func TestForeignHistogram(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*hdrhistogram.Histogram{
		"wider":   hdrhistogram.New(1, 1<<40, 3),
		"coarser": hdrhistogram.New(1, measure.Highest, 2),
	} {
		text, err := h.EncodeV2()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&histogramParser{decoder: measure.NewDecoder()}).parse([]byte("Tag=lag,0,1,1," + string(text))); err == nil || !strings.Contains(err.Error(), "lose values") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"w0", "kvbench-3", "10.0.0.1_7070", "A.b"} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", `a\b`, "-x", ".hid", "a\x00", "a\n", "ü", "x.", "run.json", "Events.jsonl", strings.Repeat("a", 129)} {
		if CheckName(name) == nil {
			t.Errorf("%q passes", name)
		}
		if _, err := WorkerDir("run", name); err == nil {
			t.Errorf("WorkerDir takes %q", name)
		}
	}
	old, young := NewRunID(time.Unix(1e9, 0)), NewRunID(time.Unix(1e9+1, 0))
	if old >= young || CheckName(old) != nil {
		t.Errorf("run ids %s, %s", old, young)
	}
}

func TestRunAndFind(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "results")
	var want []string
	for _, id := range []string{"b", "a"} {
		dir, err := CreateRun(root, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteRun(dir, &Run{RunID: id, Fleet: []Member{{Name: "w0"}}}); err != nil {
			t.Fatal(err)
		}
		want = append([]string{dir}, want...)
	}
	if _, err := CreateRun(root, "a"); !errors.Is(err, os.ErrExist) {
		t.Errorf("a run's directory can be made twice: %v", err)
	}
	for path, want := range map[string][]string{root: want, want[0]: want[:1]} {
		if got, err := Find(path); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Find(%s) = %v, %v", path, got, err)
		}
	}
	if _, err := Find(t.TempDir()); err == nil || !strings.Contains(err.Error(), RunFile) {
		t.Errorf("Find in an empty directory: %v", err)
	}
	if r, err := ReadRun(want[0]); err != nil || r.RunID != "a" {
		t.Errorf("ReadRun: %+v, %v", r, err)
	}
	for name, text := range map[string]string{
		"no JSON":       "{",
		"other version": `{"version": 99}`,
		"bad name":      `{"version": 1, "fleet": [{"name": "../../etc"}]}`,
		"twice":         `{"version": 1, "fleet": [{"name": "w"}, {"name": "w"}]}`,
		"bad time":      `{"version": 1, "window_s": -1}`,
	} {
		if err := os.WriteFile(filepath.Join(want[0], RunFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRun(want[0]); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, err := OpenEvents(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := Event{At: time.Unix(5, 0).UTC(), S: -1.5, Kind: "start", Text: "go"}
	if err := errors.Join(log.Append(want), log.Append(want), log.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, EventsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"at": "20`...), 0o666); err != nil {
		t.Fatal(err)
	}
	n, torn := 0, 0
	for e, err := range Events(dir) {
		var line *LineError
		switch {
		case errors.As(err, &line) && line.Torn:
			torn++
		case err != nil || e != want:
			t.Errorf("%+v, %v", e, err)
		default:
			n++
		}
	}
	if n != 2 || torn != 1 {
		t.Errorf("%d events and %d torn, want 2 and 1", n, torn)
	}
}

// TestAnnotate: an annotation of a run that is over follows a line that a kill has torn, and what does not belong on
// its time line is refused and changes nothing.
func TestAnnotate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := WriteRun(dir, &Run{RunID: "r", Start: time.Unix(100, 0).UTC(), WarmupS: 1, WindowS: 8, GraceS: 1}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, EventsFile)
	if err := os.WriteFile(path, []byte(`{"at": "20`), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Annotate(dir, 1500*time.Millisecond, "killed tikv-2"); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []Event
	for e, err := range Events(dir) {
		var line *LineError
		if errors.As(err, &line) && !line.Torn && line.Line == 1 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if want := (Event{At: time.Unix(101, 5e8).UTC(), S: 1.5, Kind: Annotation, Text: "killed tikv-2"}); len(all) != 1 || all[0] != want {
		t.Errorf("%+v, want %+v", all, want)
	}
	for _, bad := range []struct {
		at   time.Duration
		text string
		want string
	}{
		{-1, "x", "from 0s to 10s"},
		{11 * time.Second, "x", "from 0s to 10s"},
		{0, " ", "empty"},
		{0, strings.Repeat("ü", MaxAnnotation+1), "201 characters"},
		{0, "a\nb", "one line"},
		{0, "a\x1b[2J", "one line"},
		{0, "a\xff", "one line"},
	} {
		if err := Annotate(dir, bad.at, bad.text); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%q at %v: %v, want %q", bad.text, bad.at, err, bad.want)
		}
	}
	lock, err := dirlock.Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := Annotate(dir, 0, "x"); !errors.Is(err, dirlock.ErrInUse) {
		t.Errorf("while another writes: %v, want %v", err, dirlock.ErrInUse)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("what was refused has changed the file: %v", err)
	}
}

// TestToldEvents: a worker notes so many events and no more; its journal says how long they are.
func TestToldEvents(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "w")
	j, err := CreateJournal(dir, Worker{Name: "w", Start: time.Unix(100, 0)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range MaxToldEvents + 1 {
		err := j.WriteEvent(Event{S: float64(i), Kind: Annotation, Text: "x"})
		if (i < MaxToldEvents) != (err == nil) || err != nil && !errors.Is(err, ErrTooManyEvents) {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if err := j.Close(End{Cause: ByDuration}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range Events(dir) {
		if err != nil || e.S != float64(n) {
			t.Fatalf("event %d: %+v %v", n, e, err)
		}
		n++
	}
	info, err := os.Stat(filepath.Join(dir, EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	if w, err := ReadWorker(dir); err != nil || n != MaxToldEvents || w.Bytes[EventsFile] != info.Size() {
		t.Errorf("%d events, %v, %v", n, w.Bytes, err)
	}
}

// FuzzEvents: whatever a file of events holds, reading it ends, and each line is an event or an error.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"at":"2026-03-14T15:09:26Z","s":1.5,"kind":"annotation","text":"killed tikv-2"}` + "\n"))
	f.Add([]byte("{\n\n{}\n[]\nnull"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, EventsFile), text, 0o666); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range Events(dir) {
			var line *LineError
			if n++; err != nil && !errors.As(err, &line) {
				t.Fatal(err)
			}
		}
		if lines := bytes.Count(text, []byte("\n")) + 1; n > lines {
			t.Errorf("%d events and errors of %d lines", n, lines)
		}
	})
}

func TestTags(t *testing.T) {
	t.Parallel()
	for row := range measure.Row(measure.Rows) {
		for q := Service; int(q) < len(quantityNames); q++ {
			for _, warmup := range []bool{false, true} {
				tag := Tag{warmup, row, q}
				switch {
				case q >= WaitedService:
					tag.Row = measure.RowOf(row.Kind(), workload.OK, store.OK)
				case q >= Lag:
					tag.Row = 0
				}
				if got, ok := ParseTag([]byte(tag.String())); !ok || got != tag {
					t.Fatalf("%v comes back as %v, %v", tag, got, ok)
				}
			}
		}
	}
	for _, text := range []string{"", "READ", "READ.ok", "READ.ok.lag", "ok.service", "warmup.", "READ.error.service", "waited.service", "READ.ok.waited.service", "READ.waited.slot", "READ.ok.phase.commit", "phase.commit", "READ.phase.sleep"} {
		if _, ok := ParseTag([]byte(text)); ok {
			t.Errorf("%q is taken for a tag", text)
		}
	}
}

func FuzzJournal(f *testing.F) {
	dir, _ := journal(f, 2, false)
	var files [5][]byte
	for i, name := range []string{SecondsFile, CountsFile, HistogramsFile, ErrorsFile, TrafficFile} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		files[i] = text
	}
	f.Add(files[0], files[1], files[2], files[3], files[4])
	f.Add([]byte("end_s,new,start_s\n1,x,0\nok\n"), files[1], files[2], files[3], files[4])
	f.Add([]byte("0,1,"), []byte("0,1,READ.ok,1,1,1\n"), []byte("Tag=lag,0,1,1,HIST\n"), []byte("{}\n"), []byte(`{"end_s":1,"sizes":{"-1":2}}`+"\n"))
	f.Fuzz(func(t *testing.T, secs, counts, hists, errs, traffic []byte) {
		r := &JournalReader{warn: func(error) {}}
		r.read(strings.NewReader(string(secs)), strings.NewReader(string(counts)), strings.NewReader(string(hists)), strings.NewReader(string(errs)), strings.NewReader(string(traffic)))
		last := time.Duration(0)
		for iv, err := range r.All() {
			if err != nil {
				t.Fatal(err)
			}
			if iv.Start < last || iv.End < iv.Start {
				t.Fatalf("interval [%v, %v) after %v", iv.Start, iv.End, last)
			}
			last = iv.End
		}
	})
}

func BenchmarkJournalWrite(b *testing.B) {
	j, err := CreateJournal(filepath.Join(b.TempDir(), "w"), Worker{})
	if err != nil {
		b.Fatal(err)
	}
	iv := interval(b)
	for b.Loop() {
		if err := j.Write(iv, 0, measure.HostSample{}); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := j.Close(End{}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkJournalRead reads a journal of so many seconds, histograms and all.
func BenchmarkJournalRead(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "w")
	j, err := CreateJournal(dir, Worker{})
	if err != nil {
		b.Fatal(err)
	}
	iv := interval(b)
	for range b.N {
		if err := j.Write(iv, 0, measure.HostSample{}); err != nil {
			b.Fatal(err)
		}
		iv.Start, iv.End = iv.End, iv.End+time.Second
	}
	if err := j.Close(End{}); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	r, err := OpenJournal(dir, func(err error) { b.Error(err) })
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var read Interval
	for range b.N {
		if err := r.Next(&read); err != nil {
			b.Fatal(err)
		}
	}
}

// interval is a second of a mixed, paced load of 5,000 operations.
func interval(b *testing.B) *measure.Interval {
	c := measure.NewCollector(measure.Config{Paced: true}, 1)
	rec := c.Recorder(0)
	random := rand.New(rand.NewPCG(1, 2))
	res := workload.Result{RPCs: 1}
	res.Count[workload.OK] = 1
	for i := range 5000 {
		slot := time.Duration(i) * 200 * time.Microsecond
		start := slot + time.Duration(random.IntN(100))*time.Microsecond
		end := start + time.Duration(200+random.ExpFloat64()*300)*time.Microsecond
		rec.Record(&measure.Sample{Kind: workload.Kind(i % 2), Result: &res, Slot: slot, Start: start, End: end, Seen: end + time.Microsecond})
	}
	rec.Finish(time.Second)
	got := make(chan *measure.Interval)
	release := make(chan struct{})
	go c.Run(func(iv *measure.Interval) { got <- iv; <-release })
	iv := <-got
	b.Cleanup(func() { close(release) })
	return iv
}

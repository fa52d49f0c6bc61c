// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kvbench/kvbench/internal/measure"
	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/internal/units"
)

// The files of a tikvbench directory: the command line and the start, and per client its samples and what it printed.
const (
	commandFile = "cmd.txt"
	timeFile    = "time.txt"
	samplesFile = "results.csv"
	printedFile = "output.txt"
)

// isTikvBench tells whether a directory is one of tikvbench.
func isTikvBench(dir string) bool {
	if exists(filepath.Join(dir, commandFile)) || exists(filepath.Join(dir, timeFile)) {
		return true
	}
	entries, _ := os.ReadDir(dir)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.IsDir() && exists(filepath.Join(dir, e.Name(), samplesFile))
	})
}

// samplesUnknown are what results that are a list of samples cannot tell.
var samplesUnknown = []string{
	"Response times: no line says when its operation should have started. Latencies are service times, and while a client waits for a stalled server it asks for nothing: coordinated omission hides such stalls.",
	"Whether the target was kept: what was due and when is not there, nor are operations that were skipped or still in flight at the end.",
	"Whether a client or the servers were the limit: nothing is there of the clients' CPU, lag and operations in flight.",
	"Whether reads found anything: go-ycsb counts a read without a value as any other, and an update whose read failed as one that succeeded.",
	"How the clients' clocks differ: the times of several are compared as if they did not.",
}

// loadTikvBench reads the directory of a run. Its clients are read side by side.
func loadTikvBench(path, dir string, o Options) (*Result, error) {
	r := newResult(path, TikvBench, o)
	r.Unknown = append(r.Unknown, samplesUnknown...)
	r.readCommand(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names, without []string
	printed := false
	for _, e := range entries {
		client := filepath.Join(dir, e.Name())
		switch {
		case !e.IsDir():
		case exists(filepath.Join(client, samplesFile)):
			names = append(names, e.Name())
		default:
			without = append(without, e.Name())
			printed = printed || exists(filepath.Join(client, printedFile))
		}
	}
	hint := ""
	if printed {
		hint = fmt.Sprintf("; %s, which is there, has percentiles that cannot be merged: name such a file to see it alone", printedFile)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no client's %s in it%s", path, samplesFile, hint)
	}
	if len(without) > 0 {
		r.miss("No %s of %s%s.", samplesFile, strings.Join(without, ", "), hint)
	}
	switch n := len(names); {
	case r.SourcesExpected > n:
		r.miss("%d clients were asked for, and results of %d are here.", r.SourcesExpected, n)
	case r.SourcesExpected > 0 && r.SourcesExpected < n:
		r.note("%d clients were asked for, and results of %d are here: are some of another run?", r.SourcesExpected, n)
	}
	return r, r.readClients(dir, names)
}

// loadSamples reads a file of samples by itself.
func loadSamples(path, dir, base string, o Options) (*Result, error) {
	r := newResult(path, TikvBench, o)
	r.Unknown = append(r.Unknown, samplesUnknown...)
	r.note("One client's samples alone: whether there were others is not known.")
	return r, r.readFiles(dir, []string{base}, []string{base})
}

// settingsOf are the settings that a command line of tikvbench has: --name=value or --name value.
func settingsOf(words []string) map[string]string {
	set := make(map[string]string)
	for i, word := range words {
		name, ok := strings.CutPrefix(word, "--")
		if !ok || name == "" {
			continue
		}
		name, value, has := strings.Cut(name, "=")
		if !has && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			value = words[i+1]
		}
		set[name] = value
	}
	return set
}

// readCommand takes what cmd.txt and time.txt say.
func (r *Result) readCommand(dir string) {
	text, err := plainfile.ReadIn(dir, commandFile, plainfile.MaxSmall)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.miss("%s is not there: how many clients, which target and how large a batch were asked for is not known.", commandFile)
	case err != nil:
		r.miss("%v", err)
	default:
		r.Settings = settingsOf(strings.Fields(string(text)))
	}
	if asked, ok := r.Settings["num_clients"]; ok {
		n, err := strconv.Atoi(asked)
		if err != nil || n < 1 {
			r.miss("%s: num_clients=%q is no number of clients.", commandFile, asked)
		} else {
			r.SourcesExpected = n
		}
	} else if err == nil {
		r.note("%s does not say how many clients were asked for.", commandFile)
	}
	text, err = plainfile.ReadIn(dir, timeFile, plainfile.MaxSmall)
	switch started := strings.TrimSpace(string(text)); {
	case errors.Is(err, fs.ErrNotExist):
		r.note("%s, with the time of the start, is not there.", timeFile)
	case err != nil:
		r.miss("%v", err)
	case started == "":
		r.note("%s is empty.", timeFile)
	default:
		r.Settings["started"] = started // of an unknown time zone
	}
}

func (r *Result) readClients(dir string, names []string) error {
	files := make([]string, len(names))
	for i, name := range names {
		files[i] = filepath.Join(name, samplesFile)
	}
	return r.readFiles(dir, names, files)
}

// client is what was read of one.
type client struct {
	sampleFile
	file *file
	size int64
	err  error

	latency      *measure.Latency
	failed       int64
	failedAtLast int64 // in the last second, or the one before
}

// readFiles adds up files of samples, each of a client.
func (r *Result) readFiles(dir string, names, files []string) error {
	var (
		clients = make([]*client, len(names))
		fleet   = make(map[string]*samples)
		mu      sync.Mutex // of fleet
		wg      sync.WaitGroup
		next    = make(chan int)
	)
	for range min(runtime.GOMAXPROCS(0), len(names)) {
		wg.Go(func() {
			for i := range next {
				c := readClient(shown(r.Path, files[i]), filepath.Join(dir, files[i]))
				c.settle()
				mu.Lock()
				for _, k := range c.kinds {
					if fleet[k.name] == nil {
						fleet[k.name] = &samples{name: k.name}
					}
					fleet[k.name].merge(k)
				}
				mu.Unlock()
				c.kinds, c.current = nil, nil
				clients[i] = c
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, c := range clients {
		if c.err != nil {
			return c.err
		}
	}
	r.tell(names, clients, fleet)
	return nil
}

// readClient reads a client's file.
func readClient(name, path string) *client {
	c := &client{size: fileSize(path)}
	if c.file, c.err = openFile(name, filepath.Dir(path), filepath.Base(path)); c.err != nil {
		return c
	}
	c.read(c.file)
	c.err = c.file.close()
	return c
}

// shown is the name of a client's file below a path, which is the file itself where that belongs to no client.
func shown(path, file string) string {
	if filepath.Base(file) == file {
		return path
	}
	return filepath.Join(path, file)
}

// settle sums up what is kept of a client alone.
func (c *client) settle() {
	var answered measure.Sum
	for _, k := range c.kinds {
		if k.failed() {
			c.failed += k.latency.Count()
			c.failedAtLast += k.ends.sum(c.last/second-1, c.last/second+1)
		} else {
			answered.Merge(&k.latency)
		}
	}
	c.latency = measure.LatencyOf(answered.HDR())
}

// tell makes the report of what was read.
func (r *Result) tell(names []string, clients []*client, fleet map[string]*samples) {
	first, last := int64(math.MaxInt64), int64(0)
	latestFirst, earliestLast := int64(0), int64(math.MaxInt64)
	var zero, totals, failed, failedAtLast int64
	for i, c := range clients {
		r.leave(c.file.problems, c.file.left)
		totals += c.totals
		switch {
		case c.size == 0:
			r.miss("%s of %s is empty.", samplesFile, names[i])
		case c.count == 0:
			r.miss("%s of %s has no operation in it.", samplesFile, names[i])
		default:
			first, last = min(first, c.first), max(last, c.last)
			latestFirst, earliestLast = max(latestFirst, c.first), min(earliestLast, c.last)
		}
		zero, failed, failedAtLast = zero+c.zero, failed+c.failed, failedAtLast+c.failedAtLast
	}
	if last == 0 { // nothing was read
		return
	}
	start := time.UnixMicro(first).UTC()
	r.Start, r.SpanS = &start, float64(last-first)/float64(second)
	for i, c := range clients {
		s := Source{Name: names[i], Samples: c.count, Failed: c.failed, ServiceUS: c.latency}
		if c.count > 0 {
			s.StartS, s.EndS = float64(c.first-first)/float64(second), float64(c.last-first)/float64(second)
		}
		r.Sources = append(r.Sources, s)
	}
	rate := r.rateOver(first, last, latestFirst, earliestLast)
	r.addRows(fleet, rate)
	r.noteParts(latestFirst - first)
	if zero > 0 {
		r.note("%s %s 0 µs: shorter than a microsecond, or not measured.", units.Count(zero), units.Plural(zero, "operation took", "operations took"))
	}
	if totals > 0 {
		r.note("%s %s of %s left out: each repeats another one.", units.Count(totals), units.Plural(totals, "line", "lines"), AllKinds)
	}
	if failedAtLast > 0 {
		r.note("%s of %s errors came in the last seconds of their client: the tool ends a run by cancelling what is in flight, and counts that as errors.", units.Count(failedAtLast), units.Count(failed))
	}
}

// minRated is how many whole seconds rates are over at least, where they are over those in which all clients ran.
const minRated = 3

// rateOver returns what makes a rate of samples, and says over what it is: the whole seconds in which all clients ran or, if there
// are too few, from the first start to the last end.
func (r *Result) rateOver(first, last, latestFirst, earliestLast int64) func(*samples) float64 {
	from, to := (latestFirst+second-1)/second, earliestLast/second
	if n := to - from; n >= minRated {
		r.Rated = fmt.Sprintf("the %s s in which all clients ran", units.Count(n))
		return func(s *samples) float64 { return float64(s.ends.sum(from, to)) / float64(n) }
	}
	if last == first {
		r.Rated = "nothing: all operations began and ended at once"
		return func(*samples) float64 { return 0 }
	}
	r.Rated = fmt.Sprintf("the %s from the first start to the last end", units.Micros(float64(last-first)))
	return func(s *samples) float64 { return float64(s.latency.Count()) / (float64(last-first) / float64(second)) }
}

// addRows adds a row for each name of operations, and one for all that succeeded.
func (r *Result) addRows(fleet map[string]*samples, rate func(*samples) float64) {
	delete(fleet, AllKinds)
	all, total := &samples{name: AllKinds}, true
	for _, name := range slices.SortedFunc(maps.Keys(fleet), byKind) {
		s := fleet[name]
		row := Measured{Kind: s.kind(), Outcome: OK, Time: Service, Samples: s.latency.Count(), PerS: rate(s), LatencyUS: measure.LatencyOf(s.latency.HDR(), r.Percentiles...)}
		if s.failed() {
			row.Outcome = Failed
		} else {
			all.merge(s)
		}
		if row.Samples == 0 {
			continue
		}
		r.Rows = append(r.Rows, row)
		if strings.HasPrefix(row.Kind, "BATCH_") && !s.failed() {
			r.note("%s: a line, and so a latency, is of a batch%s. Its rate is of batches.", row.Kind, r.batch())
		}
		if row.Kind == "READ_MODIFY_WRITE" {
			total = false
			r.note("There is no row of all operations: go-ycsb measures what a READ_MODIFY_WRITE is made of as READ and UPDATE once more.")
		}
	}
	if total && all.latency.Count() > 0 {
		r.Rows = append(r.Rows, Measured{Kind: AllKinds, Outcome: OK, Time: Service, Samples: all.latency.Count(), PerS: rate(all), LatencyUS: measure.LatencyOf(all.latency.HDR(), r.Percentiles...)})
	}
}

// byKind orders names of operations so that a kind's errors follow it.
func byKind(a, b string) int {
	ka, kb := samples{name: a}, samples{name: b}
	return cmp.Or(cmp.Compare(ka.kind(), kb.kind()), cmp.Compare(len(a), len(b)))
}

// batch says how large batches were to be.
func (r *Result) batch() string {
	if size := cmp.Or(r.Settings["batch_size"], r.Settings["batch.size"]); size != "" {
		return " of up to " + size + " keys"
	}
	return ""
}

// noteParts notes how unlike the clients' parts were: that of one that ended long before the others is missing from then on.
func (r *Result) noteParts(skew int64) {
	const (
		noteSkew = second // µs
		early    = 5      // s
		share    = 0.05
	)
	if skew > noteSkew {
		r.note("The clients began up to %s apart, by their own clocks.", units.Micros(float64(skew)))
	}
	for _, s := range r.Sources {
		if s.Samples > 0 && r.SpanS-s.EndS > max(early, share*r.SpanS) {
			r.miss("%s ended %s before the last client did.", s.Name, units.Seconds(r.SpanS-s.EndS))
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

// Command peers measures what an operation costs the machine that makes the load:
// go-ycsb, a bare loop over client-go, and kvbench with each of its drivers, in
// turn against one playground, with the same keys, sizes and threads. The figures are those
// of whole processes (user+sys time as the operating system counts it); rounds alternate, so that
// a machine whose speed drifts is fair to all. `make bench-peers` runs it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kvbench/kvbench/internal/exitcode"
	"github.com/kvbench/kvbench/internal/playground"
)

// workload is a row of the comparison.
type workload struct {
	name    string
	kind    string // read or update
	batch   int
	threads int
	target  int // operations a second; 0: as fast as it goes. Only kvbench has a schedule that is comparable
	scale   int // operations, relative to the others
}

var workloads = []workload{
	{name: "point read", kind: "read", batch: 1, threads: 64, scale: 4},
	{name: "point read", kind: "read", batch: 1, threads: 800, scale: 6},
	{name: "update", kind: "update", batch: 1, threads: 64, scale: 2},
	{name: "update", kind: "update", batch: 1, threads: 800, scale: 3},
	{name: "batch 20 read", kind: "read", batch: 20, threads: 64, scale: 20},
	{name: "batch 20 read", kind: "read", batch: 20, threads: 800, scale: 20},
	{name: "point read", kind: "read", batch: 1, threads: 1, scale: 4},
	{name: "point read", kind: "read", batch: 1, threads: 64, target: 5_000, scale: 4},
	{name: "point read", kind: "read", batch: 1, threads: 64, target: 20_000, scale: 8},
}

func (w workload) String() string {
	s := fmt.Sprintf("%s, %d threads", w.name, w.threads)
	if w.target > 0 {
		s += fmt.Sprintf(", %d/s", w.target)
	}
	return s
}

const (
	records = 100_000
	// The row of tikvbench's base workload.
	rowShape = "fieldcount=1\nfieldlength=10\nrequestdistribution=uniform\nrecordcount=100000\n"
)

// peer is a client that is measured.
type peer struct {
	name string
	// scale divides the number of operations for a client that is slower, so that a
	// round does not take for ever; long enough to make starting up negligible.
	scale int
	args  func(w workload, operations int) []string
	paces bool // it can keep a target
	// read finds what the client says of its run.
	read func(output []byte, operations int) (figures, error)
}

// figures are those of one run.
type figures struct {
	cpu          float64 // µs an operation, of the whole process
	perMessage   float64 // commands in a BatchCommands message, as the playground counts them; 0: it is not known
	rate         float64 // operations a second
	service      float64 // µs, p50; 0: not told
	lag50, lag99 float64 // µs
}

// medians takes each figure's median by itself.
func medians(runs []figures) figures {
	of := func(figure func(*figures) float64) float64 {
		var x []float64
		for i := range runs {
			x = append(x, figure(&runs[i]))
		}
		return median(x)
	}
	return figures{
		cpu:        of(func(f *figures) float64 { return f.cpu }),
		perMessage: of(func(f *figures) float64 { return f.perMessage }),
		rate:       of(func(f *figures) float64 { return f.rate }),
		service:    of(func(f *figures) float64 { return f.service }),
		lag50:      of(func(f *figures) float64 { return f.lag50 }),
		lag99:      of(func(f *figures) float64 { return f.lag99 }),
	}
}

// bench holds what all runs share.
type bench struct {
	dir, pd, admin        string
	streams               []int // per store and lane: a stream client each
	kvbench, goycsb, bare string
	workloadFile          string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("peers: ")
	var b bench
	rounds := flag.Int("rounds", 5, "alternating rounds")
	operations := flag.Int("operations", 50_000, "operations of a run, times the weight of workload and client")
	only := flag.String("only", "", "run only the workloads whose name and threads match this `regexp`")
	clients := flag.String("clients", "", "run only the clients that match this `regexp`")
	flag.Func("streams", "streams per store and lane of the stream client, several separated by commas: a client each (default 1)", func(list string) error {
		for _, text := range strings.Split(list, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return fmt.Errorf("%q: want numbers from 1 on", list)
			}
			b.streams = append(b.streams, n)
		}
		return nil
	})
	flag.StringVar(&b.kvbench, "kvbench", "bin/kvbench", "kvbench's binary")
	flag.StringVar(&b.goycsb, "go-ycsb", "bin/go-ycsb", "go-ycsb's binary")
	flag.StringVar(&b.bare, "bare", "bin/bare", "the bare loop's binary")
	flag.StringVar(&b.pd, "pd", "", "PD of the cluster to use (default: a playground of its own)")
	flag.Parse()
	if b.streams == nil {
		b.streams = []int{1}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := b.run(ctx, *rounds, *operations, regexp.MustCompile(*only), regexp.MustCompile(*clients)); err != nil {
		log.Fatal(err)
	}
}

func (b *bench) run(ctx context.Context, rounds, operations int, only, clients *regexp.Regexp) (err error) {
	b.dir, err = os.MkdirTemp("", "kvbench-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.workloadFile = filepath.Join(b.dir, "workload.properties")
	if err := os.WriteFile(b.workloadFile, []byte(rowShape), 0o600); err != nil {
		return err
	}
	if b.pd == "" {
		end, err := b.playground(ctx)
		if err != nil {
			return err
		}
		defer end()
	}
	load := exec.CommandContext(ctx, b.kvbench, "load", "-w", b.workloadFile, "--pd", b.pd, "--threads", "64", "--out", b.dir, "--quiet")
	if out, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("loading: %w\n%s", err, out)
	}
	runs, err := b.compare(ctx, rounds, operations, only, clients)
	return errors.Join(err, b.table(runs)) // what was measured is worth showing
}

// runs are the figures of a workload and a client, round by round.
type runs map[string][]figures

func (r runs) of(w workload, p peer) []figures { return r[w.String()+" "+p.name] }

// compare runs every client on every workload, in turn.
func (b *bench) compare(ctx context.Context, rounds, operations int, only, clients *regexp.Regexp) (runs, error) {
	all := make(runs)
	for round := range rounds {
		for _, load := range workloads {
			for _, p := range b.peers() {
				if !only.MatchString(load.String()) || !clients.MatchString(p.name) || load.target > 0 && !p.paces {
					continue
				}
				n := max(operations*load.scale/p.scale, load.threads*load.batch)
				if load.target > 0 {
					n = operations * load.scale
				}
				f, err := b.measure(ctx, p, load, n)
				if err != nil {
					return all, err
				}
				fmt.Fprintf(os.Stderr, "round %d of %d: %v: %s: %.2f µs an operation, %.0f/s\n", round+1, rounds, load, p.name, f.cpu, f.rate)
				all[load.String()+" "+p.name] = append(all.of(load, p), f)
			}
		}
	}
	return all, nil
}

// table writes the medians.
func (b *bench) table(all runs) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "workload\tthreads\ttarget\tclient\tµs CPU/op\tcommands/message\toperations/s\t÷ go-ycsb\t÷ bare\tservice p50\tlag p50\tlag p99\t\n")
	for _, load := range workloads {
		cpuOf := make(map[string]float64)
		for _, p := range b.peers() {
			figures := all.of(load, p)
			if len(figures) == 0 {
				continue
			}
			m := medians(figures)
			cpuOf[p.name] = m.cpu
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.2f\t%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t\n", load.name, load.threads, known(float64(load.target), ""), p.name,
				m.cpu, perMessage(m.perMessage), m.rate, ratio(m.cpu, cpuOf["go-ycsb"]), ratio(m.cpu, cpuOf["bare rawkv"]),
				known(m.service, " µs"), known(m.lag50, " µs"), known(m.lag99, " µs"))
		}
	}
	return w.Flush()
}

// known writes a figure, or that there is none.
func known(v float64, unit string) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%s", v, unit)
}

func perMessage(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", n)
}

func ratio(c, other float64) string {
	if other == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", c/other)
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

func (b *bench) peers() []peer {
	kvbench := func(name, driver string, scale int, properties ...string) peer {
		return peer{name: "kvbench " + name, scale: scale, paces: true, read: kvbenchSays, args: func(w workload, n int) []string {
			other := map[string]string{"read": "update", "update": "read"}[w.kind]
			return append([]string{b.kvbench, "run", "--local", "1", "-w", b.workloadFile, "--pd", b.pd, "--driver", driver, "--out", b.dir,
				"--threads", strconv.Itoa(w.threads), "--batch", strconv.Itoa(w.batch), "--operations", strconv.Itoa(n),
				"--target", strconv.Itoa(w.target), "-p", w.kind + "proportion=1", "-p", other + "proportion=0", "--json", "--quiet"}, properties...)
		}}
	}
	bare := func(name string, flags ...string) peer {
		return peer{name: name, scale: 2, read: durationAfter(`operations in ([^ ,]+),`), args: func(w workload, n int) []string {
			return append([]string{b.bare, "-pd", b.pd, "-kind", w.kind, "-threads", strconv.Itoa(w.threads), "-batch", strconv.Itoa(w.batch),
				"-records", strconv.Itoa(records), "-operations", strconv.Itoa(n)}, flags...)
		}}
	}
	all := []peer{
		{name: "go-ycsb", scale: 4, read: durationAfter(`Run finished, takes (\S+)`), args: func(w workload, n int) []string {
			other := map[string]string{"read": "update", "update": "read"}[w.kind]
			return []string{b.goycsb, "run", "tikv", "-P", b.workloadFile, "-p", "tikv.pd=" + b.pd, "-p", "tikv.type=raw",
				"-p", "threadcount=" + strconv.Itoa(w.threads), "-p", "batch.size=" + strconv.Itoa(w.batch), "-p", "operationcount=" + strconv.Itoa(n),
				"-p", w.kind + "proportion=1", "-p", other + "proportion=0", "-p", "debug.pprof=127.0.0.1:0"}
		}},
		bare("bare rawkv"),
		bare("bare rawkv, measured", "-measure"),
		kvbench("rawkv", "rawkv", 2),
	}
	for _, n := range b.streams {
		name := "stream"
		if len(b.streams) > 1 {
			name += fmt.Sprintf(" (%d)", n)
		}
		all = append(all, kvbench(name, "stream", 1, "-p", fmt.Sprintf("stream.streams=%d", n)))
	}
	return all
}

// measure runs a client once.
func (b *bench) measure(ctx context.Context, p peer, w workload, operations int) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	args := p.args(w, operations)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	messages, commands, err := b.received(ctx)
	if err != nil {
		return figures{}, err
	}
	err = cmd.Run()
	missed := p.paces && cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == exitcode.Target // on a busy machine; its figures count
	if err != nil && !missed {
		return figures{}, fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	f, err := p.read(stdout.Bytes(), operations)
	if err != nil {
		return f, fmt.Errorf("%s: %w\n%s", p.name, err, stdout.Bytes())
	}
	moreMessages, moreCommands, err := b.received(ctx)
	if err != nil {
		return f, err
	}
	if n := moreMessages - messages; n > 0 {
		f.perMessage = float64(moreCommands-commands) / float64(n)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	f.cpu = used.Seconds() * 1e6 / float64(operations)
	return f, nil
}

// received returns how many BatchCommands messages the playground's stores have received, and the
// commands in them; none of a cluster that is not its own.
func (b *bench) received(ctx context.Context) (messages, commands uint64, err error) {
	if b.admin == "" {
		return 0, 0, nil
	}
	ctl, err := playground.Control(b.admin, playground.TLS{})
	if err != nil {
		return 0, 0, err
	}
	state, err := ctl.State(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, s := range state.Stores {
		messages += s.Messages
		for _, n := range s.Commands {
			commands += n
		}
	}
	return messages, commands, nil
}

// durationAfter reads how long a client says that its operations took.
func durationAfter(pattern string) func([]byte, int) (figures, error) {
	re := regexp.MustCompile(pattern)
	return func(out []byte, operations int) (figures, error) {
		m := re.FindSubmatch(out)
		if m == nil {
			return figures{}, fmt.Errorf("its output has no %q", pattern)
		}
		d, err := time.ParseDuration(string(m[1]))
		return figures{rate: float64(operations) / d.Seconds()}, err
	}
}

// kvbenchSays reads kvbench's report.
func kvbenchSays(out []byte, operations int) (f figures, err error) {
	type latency struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	}
	var doc struct {
		Runs []struct {
			Rate  float64 `json:"ops_per_s"`
			Lag   latency `json:"lag_us"`
			Kinds []struct {
				Kind       string  `json:"kind"`
				Outcome    string  `json:"outcome"`
				Operations int     `json:"operations"`
				Service    latency `json:"service_us"`
			} `json:"kinds"`
		} `json:"runs"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return f, err
	}
	if len(doc.Runs) != 1 {
		return f, fmt.Errorf("its report is on %d runs", len(doc.Runs))
	}
	r := &doc.Runs[0]
	f = figures{rate: r.Rate, lag50: r.Lag.P50, lag99: r.Lag.P99}
	for _, k := range r.Kinds {
		if k.Kind != "TOTAL" || k.Outcome != "ok" {
			continue
		}
		if k.Operations != operations {
			return f, fmt.Errorf("%d operations were ok, want all %d", k.Operations, operations)
		}
		f.service = k.Service.P50
	}
	return f, nil
}

// playground starts a playground of three stores on free ports, as a process of its own.
func (b *bench) playground(ctx context.Context) (end func(), err error) {
	cmd := exec.CommandContext(ctx, b.kvbench, "playground", "--pd", "127.0.0.1:0", "--store-port", "0", "--admin", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if pd, ok := strings.CutPrefix(lines.Text(), "PD "); ok {
			b.pd = strings.TrimSpace(pd)
		}
		if admin, ok := strings.CutPrefix(lines.Text(), "admin "); ok {
			b.admin = strings.Fields(admin)[0]
		}
		if strings.HasPrefix(lines.Text(), "ready") {
			return end, nil
		}
	}
	end()
	return nil, fmt.Errorf("the playground ended before it was ready")
}

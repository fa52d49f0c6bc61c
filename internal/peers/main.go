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
)

// workload is a row of the comparison.
type workload struct {
	name    string
	kind    string // read or update
	batch   int
	threads int
	scale   int // operations, relative to the others
}

var workloads = []workload{
	{"point read", "read", 1, 64, 4},
	{"point read", "read", 1, 800, 6},
	{"update", "update", 1, 64, 2},
	{"update", "update", 1, 800, 3},
	{"batch 20 read", "read", 20, 64, 20},
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
	// rate finds the operations a second in what the client prints.
	rate func(output []byte, operations int) (float64, error)
}

// bench holds what all runs share.
type bench struct {
	dir, pd               string
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
	flag.StringVar(&b.kvbench, "kvbench", "bin/kvbench", "kvbench's binary")
	flag.StringVar(&b.goycsb, "go-ycsb", "bin/go-ycsb", "go-ycsb's binary")
	flag.StringVar(&b.bare, "bare", "bin/bare", "the bare loop's binary")
	flag.StringVar(&b.pd, "pd", "", "PD of the cluster to use (default: a playground of its own)")
	flag.Parse()
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
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "workload\tthreads\tclient\tµs CPU/op\toperations/s\tCPU ÷ go-ycsb\tCPU ÷ bare\t\n")
	for _, load := range workloads {
		if !only.MatchString(fmt.Sprint(load.name, " ", load.threads)) {
			continue
		}
		cpu, rate := map[string][]float64{}, map[string][]float64{}
		for round := range rounds {
			for _, p := range b.peers() {
				if !clients.MatchString(p.name) {
					continue
				}
				n := max(operations*load.scale/p.scale, load.threads*load.batch)
				fmt.Fprintf(os.Stderr, "round %d of %d: %s, %d threads: %s, %d operations\n", round+1, rounds, load.name, load.threads, p.name, n)
				c, r, err := b.measure(ctx, p, load, n)
				if err != nil {
					return err
				}
				cpu[p.name], rate[p.name] = append(cpu[p.name], c), append(rate[p.name], r)
			}
		}
		for _, p := range b.peers() {
			if len(cpu[p.name]) == 0 {
				continue
			}
			c := median(cpu[p.name])
			fmt.Fprintf(w, "%s\t%d\t%s\t%.2f\t%.0f\t%s\t%s\t\n", load.name, load.threads, p.name,
				c*1e6, median(rate[p.name]), ratio(c, cpu["go-ycsb"]), ratio(c, cpu["bare rawkv"]))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func ratio(c float64, others []float64) string {
	if len(others) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", c/median(others))
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

func (b *bench) peers() []peer {
	kvbench := func(driver string, scale int) peer {
		return peer{"kvbench " + driver, scale, func(w workload, n int) []string {
			other := map[string]string{"read": "update", "update": "read"}[w.kind]
			return []string{b.kvbench, "run", "--local", "1", "-w", b.workloadFile, "--pd", b.pd, "--driver", driver, "--out", b.dir,
				"--threads", strconv.Itoa(w.threads), "--batch", strconv.Itoa(w.batch), "--operations", strconv.Itoa(n),
				"-p", w.kind + "proportion=1", "-p", other + "proportion=0", "--json", "--quiet"}
		}, kvbenchRate}
	}
	return []peer{
		{"go-ycsb", 4, func(w workload, n int) []string {
			other := map[string]string{"read": "update", "update": "read"}[w.kind]
			return []string{b.goycsb, "run", "tikv", "-P", b.workloadFile, "-p", "tikv.pd=" + b.pd, "-p", "tikv.type=raw",
				"-p", "threadcount=" + strconv.Itoa(w.threads), "-p", "batch.size=" + strconv.Itoa(w.batch), "-p", "operationcount=" + strconv.Itoa(n),
				"-p", w.kind + "proportion=1", "-p", other + "proportion=0", "-p", "debug.pprof=127.0.0.1:0"}
		}, durationAfter(`Run finished, takes (\S+)`)},
		{"bare rawkv", 2, func(w workload, n int) []string {
			return []string{b.bare, "-pd", b.pd, "-kind", w.kind, "-threads", strconv.Itoa(w.threads), "-batch", strconv.Itoa(w.batch),
				"-records", strconv.Itoa(records), "-operations", strconv.Itoa(n)}
		}, durationAfter(`operations in ([^ ,]+),`)},
		kvbench("rawkv", 2),
		kvbench("stream", 1),
	}
}

// measure runs a client once. It returns CPU seconds an operation and operations a second.
func (b *bench) measure(ctx context.Context, p peer, w workload, operations int) (cpu, rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	args := p.args(w, operations)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return 0, 0, fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	rate, err = p.rate(stdout.Bytes(), operations)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w\n%s", p.name, err, stdout.Bytes())
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return used.Seconds() / float64(operations), rate, nil
}

// durationAfter reads how long a client says that its operations took.
func durationAfter(pattern string) func([]byte, int) (float64, error) {
	re := regexp.MustCompile(pattern)
	return func(out []byte, operations int) (float64, error) {
		m := re.FindSubmatch(out)
		if m == nil {
			return 0, fmt.Errorf("its output has no %q", pattern)
		}
		d, err := time.ParseDuration(string(m[1]))
		return float64(operations) / d.Seconds(), err
	}
}

func kvbenchRate(out []byte, operations int) (float64, error) {
	var doc struct {
		Runs []struct {
			Rate  float64 `json:"ops_per_s"`
			Kinds []struct {
				Kind       string `json:"kind"`
				Outcome    string `json:"outcome"`
				Operations int    `json:"operations"`
			} `json:"kinds"`
		} `json:"runs"`
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return 0, err
	}
	for _, k := range doc.Runs[0].Kinds {
		if k.Kind == "TOTAL" && k.Outcome == "ok" && k.Operations != operations {
			return 0, fmt.Errorf("%d operations were ok, want all %d", k.Operations, operations)
		}
	}
	return doc.Runs[0].Rate, nil
}

// playground starts a playground of three stores on free ports, as a process of its own.
func (b *bench) playground(ctx context.Context) (end func(), err error) {
	cmd := exec.CommandContext(ctx, b.kvbench, "playground", "--pd", "127.0.0.1:0", "--store-port", "0", "--admin", "")
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
		if strings.HasPrefix(lines.Text(), "ready") {
			return end, nil
		}
	}
	end()
	return nil, fmt.Errorf("the playground ended before it was ready")
}

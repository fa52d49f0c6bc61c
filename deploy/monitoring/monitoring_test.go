// SPDX-License-Identifier: Apache-2.0

// Package monitoring_test has a Prometheus scrape workers during a run, and asks
// it everything that the dashboard and the alerts ask.
package monitoring_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	workers = 2
	target  = 400
	runFor  = "25s"
)

func TestDashboardAndAlerts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("SKIPPED: there is no prometheus on this machine (Debian's package \"prometheus\" has it), so the dashboard's queries are not tested")
	}
	dir := t.TempDir()
	kvbench := filepath.Join(dir, "kvbench")
	if out, err := exec.Command("go", "build", "-o", kvbench, "github.com/kvbench/kvbench/cmd/kvbench").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}

	pd, admin := freeAddress(t), freeAddress(t)
	start(t, kvbench, "playground", "--pd", pd, "--store-port", "0", "--admin", admin).wait("ready")
	var control, metrics []string
	for i := range workers {
		w := start(t, kvbench, "worker", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--data", filepath.Join(dir, strconv.Itoa(i)))
		metrics = append(metrics, attribute(w.wait("msg=metrics"), "address"))
		control = append(control, attribute(w.wait("worker ready"), "address"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	load := exec.CommandContext(ctx, kvbench, "load", "-p", "recordcount=1000", "--threads", "4", "--pd", pd, "--workers", strings.Join(control, ","), "--out", dir, "--quiet")
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("load: %v\n%s", err, out)
	}
	run := start(t, kvbench, "run", "-p", "recordcount=1000", "-p", "readproportion=0.5", "-p", "updateproportion=0.5",
		"--driver", "stream", "--threads", "4", "--target", strconv.Itoa(target), "--duration", runFor, "--pd", pd, "--workers", strings.Join(control, ","), "--out", dir)

	classic := startPrometheus(t, filepath.Join(dir, "classic"), metrics)
	native := startPrometheus(t, filepath.Join(dir, "native"), metrics, "--enable-feature=native-histograms")

	// The rate over the last 10 s is the target once the run has been scraped so long.
	rate := `sum(rate(kvbench_operations_total{run_id=~".*"}[10s]))`
	eventually(t, run, "the rate of operations", func() error {
		v, err := classic.value(rate + ` and on() sum(count_over_time(kvbench_run_active[10s]) * on(instance, run_id) kvbench_run_active) >= 9 * ` + strconv.Itoa(workers))
		if err == nil && math.Abs(v-target) > target*0.05 {
			err = fmt.Errorf("%s = %v, want %d", rate, v, target)
		}
		return err
	})

	// Some commands go to a leader that is none any more, and the driver falls back on client-go.
	if out, err := exec.CommandContext(ctx, kvbench, "playground", "ctl", "--admin", admin, "move-leaders").CombinedOutput(); err != nil {
		t.Fatalf("move-leaders: %v\n%s", err, out)
	}
	for _, panel := range readPanels(t, "kvbench.json") {
		for _, expr := range panel.queries {
			eventually(t, run, "panel "+panel.title, func() error { _, err := classic.values(expr); return err })
		}
	}
	for _, metric := range []string{"kvbench_service_seconds", "kvbench_response_seconds", "kvbench_lag_seconds"} {
		expr := `histogram_quantile(0.5, sum(rate(` + metric + `[10s])))`
		eventually(t, run, "native histogram "+metric, func() error { _, err := native.value(expr); return err })
	}
	eventually(t, run, "recording rule", func() error {
		_, err := classic.value(`sum(kvbench:operations:rate1m)`)
		return err
	})
	if v, err := classic.values(`ALERTS{alertname=~"Kvbench.*",alertstate="firing"}`); err == nil {
		t.Errorf("alerts of a run that is well: %v", v)
	}
	if err := run.exit(); err != nil {
		t.Errorf("the run: %v", err)
	}
}

// panel is one panel of the dashboard.
type panel struct {
	title   string
	queries []string
}

// readPanels reads the dashboard and sets its variables as Grafana would.
func readPanels(t *testing.T, path string) (panels []panel) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Type, Title string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$run", ".*", "$namespace", ".*", "$__rate_interval", "10s")
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			continue
		}
		found := panel{title: p.Title}
		for _, target := range p.Targets {
			found.queries = append(found.queries, variables.Replace(target.Expr))
		}
		if len(found.queries) == 0 {
			t.Errorf("panel %s asks nothing", p.Title)
		}
		panels = append(panels, found)
	}
	if len(panels) < 10 {
		t.Fatalf("%s has %d panels", path, len(panels))
	}
	return panels
}

// prometheus is a server, by its base URL.
type prometheus string

// startPrometheus starts one that scrapes the addresses every second and evaluates
// the alerts' rules.
func startPrometheus(t *testing.T, dir string, targets []string, flags ...string) prometheus {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writeRules(t, dir)
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{"rules.yaml"},
		"scrape_configs": []any{map[string]any{
			"job_name":       "kvbench",
			"static_configs": []any{map[string]any{"targets": targets, "labels": map[string]string{"namespace": "test"}}},
		}},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "prometheus.yaml"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	start(t, "prometheus", append(flags,
		"--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)...).wait("Server is ready")
	return prometheus("http://" + address)
}

// values answers a query; no value at all is an error, and so is one that is not a number.
func (p prometheus) values(expr string) ([]float64, error) {
	resp, err := http.Get(string(p) + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	var values []float64
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil || math.IsNaN(v) {
			continue // a percentile of nothing
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("%s: no data (%d series)", expr, len(answer.Data.Result))
	}
	return values, nil
}

// value answers a query that has one value.
func (p prometheus) value(expr string) (float64, error) {
	values, err := p.values(expr)
	if err != nil {
		return 0, err
	}
	return values[0], nil
}

// eventually waits, while the run lasts, until check is content.
func eventually(t *testing.T, run *process, what string, check func() error) {
	t.Helper()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-run.ended:
			t.Errorf("%s: %v", what, err)
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// process is a program that runs until the test ends.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	lines chan string // what it writes, line by line
	ended chan struct{}
	err   error // of the process, once it has ended
}

func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: filepath.Base(program) + " " + args[0], cmd: exec.Command(program, args...), lines: make(chan string, 10000), ended: make(chan struct{})}
	r, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			select {
			case p.lines <- s.Text():
			default: // nobody reads
			}
		}
	}()
	go func() {
		p.err = p.cmd.Wait()
		w.Close()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(15 * time.Second):
			p.cmd.Process.Kill()
			<-p.ended
		}
		if t.Failed() {
			for line := range p.lines {
				t.Logf("%s: %s", p.name, line)
			}
		}
	})
	return p
}

// wait returns the next line that contains text.
func (p *process) wait(text string) string {
	p.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("%s ended without %q: %v", p.name, text, p.err)
			}
			if strings.Contains(line, text) {
				return line
			}
			p.t.Logf("%s: %s", p.name, line)
		case <-deadline:
			p.t.Fatalf("%s does not say %q", p.name, text)
		}
	}
}

// exit waits for the end and returns how it went.
func (p *process) exit() error {
	<-p.ended
	return p.err
}

// attribute returns an attribute of a log line.
func attribute(line, name string) string {
	_, rest, _ := strings.Cut(line, " "+name+"=")
	value, _, _ := strings.Cut(rest, " ")
	return value
}

// freeAddress returns an address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().String()
}

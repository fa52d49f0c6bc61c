// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cluster is the cluster under test, and a copy of the manifests to change.
type cluster struct {
	t    *testing.T
	dir  string // copy of k8s and deploy/monitoring, with the image and a token of its own
	root string // of the repository

	before string // newest results when the command line was last called
}

// kubectl runs kubectl and returns what it writes; a failure ends the test.
func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// try is kubectl that may fail.
func (c *cluster) try(args ...string) (string, error) {
	out, err := exec.Command(kubectlName(), args...).CombinedOutput()
	return string(out), err
}

func kubectlName() string { return cmp.Or(os.Getenv("KUBECTL"), "kubectl") }

// path is a path of the copy.
func (c *cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

// replace changes text in a file of the copy.
func (c *cluster) replace(file string, oldnew ...string) {
	c.t.Helper()
	content, err := os.ReadFile(c.path(file))
	if err != nil {
		c.t.Fatal(err)
	}
	text := strings.NewReplacer(oldnew...).Replace(string(content))
	if text == string(content) {
		c.t.Fatalf("%s has none of %q", file, oldnew)
	}
	if err := os.WriteFile(c.path(file), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// write makes a file of the copy.
func (c *cluster) write(file, text string) {
	c.t.Helper()
	if err := os.MkdirAll(filepath.Dir(c.path(file)), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(c.path(file), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// loadImage gives the nodes the image of an archive that was built in dir, if it is said how.
func (c *cluster) loadImage(dir string) {
	c.t.Helper()
	load := os.Getenv("LOAD_IMAGE")
	if load == "" {
		return
	}
	if out, err := exec.Command("sh", "-c", load+` "$1"`, "sh", filepath.Join(dir, "bin", "kvbench-image.tar")).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v\n%s", load, err, out)
	}
}

// readKubeconfig returns the current context's kubeconfig.
func (c *cluster) readKubeconfig() (config map[string]any) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.kubectl("config", "view", "--raw", "--flatten", "--minify", "-o", "json")), &config); err != nil {
		c.t.Fatal(err)
	}
	return config
}

// writeKubeconfig writes one beside the copy, and returns its path.
func (c *cluster) writeKubeconfig(name string, config map[string]any) string {
	c.t.Helper()
	text, err := json.Marshal(config) // JSON is YAML
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(name, string(text))
	return c.path(name)
}

// apply applies a kustomization of the copy and waits for the workers.
func (c *cluster) apply(kustomization string) {
	c.t.Helper()
	if out := c.kubectl("apply", "-k", c.path(kustomization)); strings.Contains(out, "would violate PodSecurity") {
		c.t.Errorf("%s breaks the restricted level:\n%s", kustomization, out)
	}
	c.ready()
}

// ready waits until every pod of the fleet, and the playground, is ready.
func (c *cluster) ready() {
	c.t.Helper()
	for _, set := range []string{"kvbench", "playground"} {
		c.kubectl("-n", namespace, "rollout", "status", "statefulset/"+set, "--timeout=180s")
	}
}

// result is what a run of the command line came to.
type result struct {
	code   int
	stdout string
	stderr string
	took   time.Duration
	began  time.Time
}

// kvbench runs the command line under test.
func (c *cluster) kvbench(args ...string) result { return c.begin(nil, args...)() }

// begin starts the command line with further environment, and returns what waits for it.
func (c *cluster) begin(env []string, args ...string) (wait func() result) {
	c.t.Helper()
	c.before = c.newest()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, filepath.Join(c.root, "bin", "kvbench"), args...)
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	r := result{began: time.Now()}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	return func() result {
		defer cancel()
		err := cmd.Wait()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			c.t.Fatal(err)
		}
		r.code, r.took = cmd.ProcessState.ExitCode(), time.Since(r.began)
		r.stdout, r.stderr = stdout.String(), stderr.String()
		return r
	}
}

// report is the part of kvbench's JSON that is looked at.
type report struct {
	RunID           string    `json:"run_id"`
	Start           time.Time `json:"start"`
	WorkersExpected int       `json:"workers_expected"`
	WorkersFinished int       `json:"workers_finished"`
	WorkersLost     []struct {
		Name string  `json:"name"`
		AtS  float64 `json:"at_s"`
	} `json:"workers_lost"`
	MaxStartSkewUS float64 `json:"max_start_skew_us"`
	OpsPerS        float64 `json:"ops_per_s"`
	Kinds          []struct {
		Kind, Outcome string
		Operations    int64
	}
	Verdict struct {
		Code int
		Text string
	}
}

// operations of one kind and outcome.
func (r report) operations(kind, outcome string) int64 {
	for _, k := range r.Kinds {
		if k.Kind == kind && k.Outcome == outcome {
			return k.Operations
		}
	}
	return 0
}

// parse reads the JSON document of one run.
func parse(t *testing.T, r result) report {
	t.Helper()
	var document struct{ Runs []report }
	if err := json.Unmarshal([]byte(r.stdout), &document); err != nil || len(document.Runs) != 1 {
		t.Fatalf("exit code %d; standard output is no document of one run (%v):\n%s\n%s", r.code, err, r.stdout, r.stderr)
	}
	return document.Runs[0]
}

// eventually waits until check is content.
func eventually(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: after %v: %v", what, limit, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

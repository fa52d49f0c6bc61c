// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// smaller are what the documented commands ask of a TiKV cluster, and what is asked of
// the playground instead. Each is in the documents.
var smaller = []string{
	"TOTAL_KEYS=10000000", "TOTAL_KEYS=20000",
	"TARGET_IOPS=1000000", "TARGET_IOPS=500",
	"NUM_THREADS=100", "NUM_THREADS=8",
	"NUM_THREADS=800", "NUM_THREADS=8",
	"RUNTIME=5m", "RUNTIME=5s",
	"RUNTIME=20m", "RUNTIME=5s",
}

// needs is how the first line of a block begins that cannot be run here.
const needs = "# needs "

// Every command of the README's section and of the page on Kubernetes, as it stands
// there, from an empty cluster to an empty cluster.
func TestDocumented(t *testing.T) {
	if os.Getenv("LOAD_IMAGE") == "" {
		t.Skip("SKIPPED: LOAD_IMAGE does not say how nodes get an image that no registry has")
	}
	c := setUp(t)
	checkout(c)
	c.loadImage(c.root)
	r := &reader{cluster: c, t: t}
	readme := blocks(t, filepath.Join(c.root, "README.md"), "## On Kubernetes", "## Read on")
	page := blocks(t, filepath.Join(c.root, "docs", "kubernetes.md"), "# On Kubernetes", "## Coming from tikvbench")
	for i := 0; i < len(smaller); i += 2 {
		if !slices.ContainsFunc(append(slices.Clone(readme), page...), func(b string) bool { return strings.Contains(b, smaller[i]) }) {
			t.Errorf("no command has %s", smaller[i])
		}
	}
	for _, b := range page { // the image first: the cluster to test is made of it
		r.run(b)
		if strings.Contains(b, "image-tar") {
			c.loadImage(c.dir)
			c.placementDriver()
			for _, b := range readme {
				r.run(b)
			}
			r.before = r.after
			if err := os.Remove(c.path("k8s/kvbench/components/token/token")); err != nil { // who reads the page has read no README
				t.Fatal(err)
			}
		}
	}
	if _, err := c.try("get", "namespace", namespace); err == nil {
		t.Error("the namespace is still there")
	}
}

// blocks are the commands of a document between two headings.
func blocks(t *testing.T, file, from, to string) (all []string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(content), from+"\n")
	text, _, ends := strings.Cut(text, to+"\n")
	if !ok || !ends {
		t.Fatalf("%s has no headings %q and %q", file, from, to)
	}
	var block []string
	for line := range strings.Lines(text + "\n") {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			block = append(block, code)
		} else if strings.TrimSpace(line) != "" && len(block) > 0 {
			all, block = append(all, strings.Join(block, "")), nil
		} else if len(block) > 0 {
			block = append(block, line)
		}
	}
	if len(block) > 0 {
		all = append(all, strings.Join(block, ""))
	}
	if len(all) == 0 {
		t.Fatalf("%s has no commands", file)
	}
	return all
}

// reader does what a document says.
type reader struct {
	*cluster
	t             *testing.T
	before, after string // runs
}

// run runs a block of commands in the copy.
func (r *reader) run(block string) {
	name, _, _ := strings.Cut(block, "\n")
	r.t.Run(name, func(t *testing.T) {
		r.cluster.t = t
		script := strings.NewReplacer(append(smaller, "<run>", r.after, "<before>", r.before, "<after>", r.after)...).Replace(block)
		if strings.HasPrefix(block, needs) {
			r.cannot(t, script)
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
		cmd.Dir = r.dir
		cmd.Env = append(os.Environ(), "ARCHES="+runtime.GOARCH, "PATH="+r.path("tools")+":"+os.Getenv("PATH"))
		cmd.Stdin = strings.NewReader("tikv-cluster\n") // the answer to the one question
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, script, out)
		}
		if strings.Contains(script, "logs -f") || strings.Contains(script, "kvbench run") {
			if !strings.Contains(string(out), "verdict  ") {
				t.Errorf("there is no report of a run:\n%s", out)
			}
		}
		if strings.Contains(script, "certs --out") { // what the page says of mutual TLS holds for those without a certificate, too
			r.write("other", rand.Text())
			r.says(r.kvbench("status", "--kube", "-n", namespace, "--token-file", r.path("other")), 3, "TLS")
		}
		runs, err := filepath.Glob(r.path("results", "*", "run.json"))
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) > 0 { // names begin with the time
			r.after = filepath.Base(filepath.Dir(slices.Max(runs)))
		}
	})
	if r.t.Failed() {
		r.t.FailNow() // the next block is for a reader who has seen this one succeed
	}
}

// cannot checks what can be checked of commands that need what is not here: those that
// make is to run exist.
func (r *reader) cannot(t *testing.T, script string) {
	checked := 0
	for line := range strings.Lines(script) {
		if args := strings.Fields(line); len(args) > 1 && args[0] == "make" {
			cmd := exec.Command("make", append([]string{"--dry-run"}, args[1:]...)...)
			cmd.Dir = r.dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s%v\n%s", line, err, out)
			}
			checked++
		}
	}
	if checked == 0 {
		t.Errorf("nothing of this can be checked:\n%s", script)
	}
}

// checkout makes the copy one of everything, without what Git ignores, and puts the
// tools beside it that users have.
func checkout(c *cluster) {
	c.t.Helper()
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	list.Dir = c.root
	files, err := list.Output()
	if err != nil {
		c.t.Fatalf("git ls-files: %v", err)
	}
	if err := os.RemoveAll(c.dir); err != nil {
		c.t.Fatal(err)
	}
	for _, file := range strings.Split(strings.TrimSpace(string(files)), "\n") {
		from, to := filepath.Join(c.root, file), c.path(file)
		info, err := os.Lstat(from)
		if os.IsNotExist(err) {
			continue // deleted and not committed
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil && info.Mode()&os.ModeSymlink != 0 {
			var target string
			if target, err = os.Readlink(from); err == nil {
				err = os.Symlink(target, to)
			}
		} else if err == nil {
			var content []byte
			if content, err = os.ReadFile(from); err == nil {
				err = os.WriteFile(to, content, info.Mode().Perm())
			}
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-modfile=internal/tools/go.mod", "-o", c.path("tools")+"/", "helm.sh/helm/v3/cmd/helm")
	build.Dir = c.root
	if out, err := build.CombinedOutput(); err != nil {
		c.t.Fatalf("helm: %v\n%s", err, out)
	}
	if kubectl := kubectlName(); kubectl != "kubectl" {
		if kubectl, err = exec.LookPath(kubectl); err == nil {
			err = os.Symlink(kubectl, c.path("tools", "kubectl"))
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// placementDriver has a playground stand where the documents have PD.
func (c *cluster) placementDriver() {
	c.t.Helper()
	const ns = "tikv-cluster"
	if _, err := c.try("get", "namespace", ns); err == nil {
		c.t.Fatalf("there is a namespace %s; the documented commands would delete it", ns)
	}
	c.write("k8s/pd/namespace.yaml", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", ns))
	c.write("k8s/pd/service.yaml", `
apiVersion: v1
kind: Service
metadata: {name: basic-pd}
spec: {clusterIP: None, selector: {app: playground}, ports: [{port: 2379}]}
`)
	c.write("k8s/pd/kustomization.yaml", fmt.Sprintf(`
namespace: %s
resources: [namespace.yaml, service.yaml]
components: [../kvbench/components/playground]
images: [{name: kvbench, newName: registry.example.com/kvbench, newTag: v1}]
`, ns))
	c.kubectl("apply", "-k", c.path("k8s/pd"))
	c.kubectl("-n", ns, "rollout", "status", "statefulset/playground", "--timeout=120s")
	c.t.Cleanup(func() { c.try("delete", "namespace", ns, "--ignore-not-found") })
}

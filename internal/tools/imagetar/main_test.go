// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

func TestArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.WriteFile(filepath.Join(dir, arch), []byte("program for "+arch), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	make := func(output string) []byte {
		t.Helper()
		output = filepath.Join(dir, output)
		err := run("kvbench:v1", labels("v1", "c0ffee"), output, []string{"linux/amd64=" + filepath.Join(dir, "amd64"), "linux/arm64=" + filepath.Join(dir, "arm64")})
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(output + ".tar")
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	content := make("a")
	if !bytes.Equal(content, make("b")) {
		t.Error("the same binaries gave two archives")
	}

	root := filepath.Join(dir, "layout")
	unpack(t, content, root)
	index, err := layout.ImageIndexFromPath(root)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != "docker.io/library/kvbench:v1" {
		t.Errorf("the image's name is %q", got)
	}
	images, err := index.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err = images.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		m := manifest.Manifests[i]
		if !m.Platform.Equals(v1.Platform{OS: "linux", Architecture: arch}) {
			t.Errorf("image %d is for %v", i, m.Platform)
		}
		img, err := images.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || config.Config.User != user || config.Config.Entrypoint[0] != "/kvbench" {
			t.Errorf("config of %s: %+v", arch, config)
		}
		if l := config.Config.Labels; l["org.opencontainers.image.version"] != "v1" || l["org.opencontainers.image.revision"] != "c0ffee" {
			t.Errorf("labels of %s: %v", arch, l)
		}
		layers, err := img.Layers()
		if err != nil || len(layers) != 1 {
			t.Fatalf("layers: %v, %v", layers, err)
		}
		reader, err := layers[0].Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		layer, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(layer, []byte("tmp/\x00")) {
			t.Errorf("the image of %s has no /tmp", arch)
		}
		files := filepath.Join(dir, "root-"+arch)
		unpack(t, layer, files)
		if got, err := os.ReadFile(filepath.Join(files, "kvbench")); string(got) != "program for "+arch {
			t.Errorf("/kvbench of %s: %q, %v", arch, got, err)
		}
	}
}

// The commands that the documentation names take what is written: crane from the
// module that the image is made with, skopeo where it is installed.
func TestPush(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds crane")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, "image")
	if err := run("kvbench:v1", labels("v1", ""), image, []string{"linux/amd64=" + program, "linux/arm64=" + program}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")

	push := func(ref string, command ...string) {
		t.Helper()
		if out, err := exec.Command(command[0], append(command[1:], ref)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	check := func(repository, tag string) {
		t.Helper()
		resp, err := http.Get(server.URL + "/v2/" + repository + "/manifests/" + tag)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		m, err := v1.ParseIndexManifest(resp.Body)
		if err != nil || len(m.Manifests) != 2 {
			t.Errorf("%s:%s: %s, %+v, %v", repository, tag, resp.Status, m, err)
		}
	}
	push(host+"/crane:v1", "go", "tool", "crane", "push", image)
	check("crane", "v1")
	if _, err := exec.LookPath("skopeo"); err != nil {
		t.Skip("SKIPPED: there is no skopeo on this machine, so only crane has taken the image")
	}
	policy := []string{"skopeo", "copy", "--all", "--insecure-policy", "--dest-tls-verify=false"}
	push("docker://"+host+"/skopeo:v1", append(policy, "oci:"+image)...)
	check("skopeo", "v1")
	push("docker://"+host+"/skopeo:v2", append(policy, "oci-archive:"+image+".tar")...)
	check("skopeo", "v2")
}

// unpack writes the files of a tar archive below dir.
func unpack(t *testing.T, archive []byte, dir string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	output := filepath.Join(t.TempDir(), "image.tar")
	for _, test := range []struct {
		image     string
		platforms []string
		want      string
	}{
		{"KVBENCH", []string{"linux/amd64=main.go"}, "KVBENCH"},
		{"kvbench:v1", nil, "at least one platform"},
		{"kvbench:v1", []string{"linux/amd64"}, "PLATFORM=BINARY"},
		{"kvbench:v1", []string{"linux/amd64=/nonexistent"}, "/nonexistent"},
		{"kvbench:v1", []string{"a/b/c/d=main.go"}, "a/b/c/d"},
	} {
		err := run(test.image, nil, output, test.platforms)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %v: error %v does not contain %q", test.image, test.platforms, err, test.want)
		}
		if _, err := os.Stat(output); err == nil {
			t.Errorf("%s %v: a file was written", test.image, test.platforms)
		}
	}
}

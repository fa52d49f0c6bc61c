// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		err := run("kvbench:v1", "v1", output, []string{"linux/amd64=" + filepath.Join(dir, "amd64"), "linux/arm64=" + filepath.Join(dir, "arm64")})
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	content := make("a.tar")
	if !bytes.Equal(content, make("b.tar")) {
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
		files := filepath.Join(dir, "root-"+arch)
		unpack(t, layer, files)
		if got, err := os.ReadFile(filepath.Join(files, "kvbench")); string(got) != "program for "+arch {
			t.Errorf("/kvbench of %s: %q, %v", arch, got, err)
		}
	}
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
		err := run(test.image, "", output, test.platforms)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %v: error %v does not contain %q", test.image, test.platforms, err, test.want)
		}
		if _, err := os.Stat(output); err == nil {
			t.Errorf("%s %v: a file was written", test.image, test.platforms)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

// Command imagetar makes kvbench's container image without a Docker daemon: an
// OCI layout for one or more platforms, as a folder and as an archive of it, from
// binaries that were cross-compiled. It holds what deploy/Dockerfile makes, and the
// same binaries give the same bytes.
//
//	imagetar -image kvbench:dev -o image linux/amd64=kvbench-amd64 linux/arm64=kvbench-arm64
//
// The folder is for "crane push image …" and "skopeo copy --all oci:image …", the archive
// image.tar for "ctr images import", "kind load image-archive", "minikube image load",
// "podman load" and "skopeo copy --all oci-archive:image.tar …".
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const user = "65532:65532"

func main() {
	image := flag.String("image", "kvbench:dev", "`name` that the archive gives the image")
	version := flag.String("version", "dev", "kvbench's version, for the image's labels")
	revision := flag.String("revision", "", "commit that it was built from, for the image's labels")
	output := flag.String("o", "image", "`folder` to write, and beside it the archive of that name and .tar; what is there is replaced")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: imagetar [flags] PLATFORM=BINARY…\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*image, labels(*version, *revision), *output, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "imagetar:", err)
		os.Exit(1)
	}
}

// labels are those of the OCI image specification.
func labels(version, revision string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "kvbench",
		"org.opencontainers.image.description": "Distributed YCSB-style load for TiKV's raw key-value API",
		"org.opencontainers.image.source":      "https://github.com/kvbench/kvbench",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.revision":    revision,
	}
}

func run(image string, labels map[string]string, output string, platforms []string) error {
	ref, err := name.NewTag(image)
	if err != nil {
		return err
	}
	if len(platforms) == 0 {
		return errors.New("name at least one platform and its binary, as in linux/amd64=bin/kvbench")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		platform, binary, ok := strings.Cut(p, "=")
		if !ok {
			return fmt.Errorf("%q: want PLATFORM=BINARY", p)
		}
		parsed, err := v1.ParsePlatform(platform)
		if err != nil {
			return err
		}
		img, err := build(*parsed, labels, binary)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: parsed}})
	}
	if err := writeLayout(output, ref, index); err != nil {
		return err
	}
	return archiveFolder(output, output+".tar")
}

// build makes the image of one platform: one layer with the binary, a user to
// run it, and a place for temporary files.
func build(platform v1.Platform, labels map[string]string, binary string) (v1.Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	content, err := archive(
		file{"etc/", 0o755, nil},
		file{"etc/group", 0o644, []byte("nonroot:x:65532:\n")},
		file{"etc/passwd", 0o644, []byte("nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		file{"kvbench", 0o755, program},
		file{"tmp/", 0o1777, nil},
	)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "kvbench imagetar", Created: v1.Time{Time: epoch}}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Created = v1.Time{Time: epoch}
	config.Config = v1.Config{
		User:       user,
		Entrypoint: []string{"/kvbench"},
		Env:        []string{"PATH=/"},
		Labels:     labels,
	}
	return mutate.ConfigFile(img, config)
}

// epoch is when everything in the image was made.
var epoch = time.Unix(0, 0).UTC()

type file struct {
	name    string // a directory ends in /
	mode    int64
	content []byte
}

// archive returns a tar archive of files that belong to root.
func archive(files ...file) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: epoch, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

// writeLayout writes the index as an OCI layout under its name.
func writeLayout(dir string, ref name.Tag, index v1.ImageIndex) error {
	if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
		if _, err := layout.FromPath(dir); err != nil {
			return fmt.Errorf("%s is no OCI layout to be replaced: %w", dir, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": ref.TagStr(),
		"io.containerd.image.name":          containerdName(ref),
	}))
}

// archiveFolder writes the files of a folder to a tar file.
func archiveFolder(dir, output string) (err error) {
	out, err := os.Create(output)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, out.Close())
	}()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), ModTime: epoch, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close())
}

// containerdName returns the full name, as containerd and the kubelet write it.
func containerdName(ref name.Tag) string {
	registry := ref.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io"
	}
	return registry + "/" + ref.RepositoryStr() + ":" + ref.TagStr()
}

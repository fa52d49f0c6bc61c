// SPDX-License-Identifier: Apache-2.0

// Command imagetar makes kvbench's container image without a Docker daemon: an
// OCI archive for one or more platforms, from binaries that were cross-compiled.
// It holds what deploy/Dockerfile makes, and the same binaries give the same bytes.
//
//	imagetar -image kvbench:dev -o image.tar linux/amd64=kvbench-amd64 linux/arm64=kvbench-arm64
//
// The archive is for "ctr images import", "kind load image-archive", "minikube
// image load", "podman load", "skopeo copy oci-archive:image.tar …" and
// "crane push".
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
	output := flag.String("o", "image.tar", "`file` to write")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: imagetar [flags] PLATFORM=BINARY…\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*image, *version, *output, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "imagetar:", err)
		os.Exit(1)
	}
}

func run(image, version, output string, platforms []string) error {
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
		img, err := build(*parsed, version, binary)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: parsed}})
	}
	return writeArchive(output, ref, index)
}

// build makes the image of one platform: one layer with the binary and a user to
// run it.
func build(platform v1.Platform, version, binary string) (v1.Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	content, err := archive(
		file{"etc/", 0o755, nil},
		file{"etc/group", 0o644, []byte("nonroot:x:65532:\n")},
		file{"etc/passwd", 0o644, []byte("nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		file{"kvbench", 0o755, program},
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
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "kvbench deploy/imagetar", Created: v1.Time{Time: epoch}}})
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
		Labels: map[string]string{
			"org.opencontainers.image.title":    "kvbench",
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
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

// writeArchive writes the index as an OCI layout in a tar file, under its name.
func writeArchive(output string, ref name.Tag, index v1.ImageIndex) (err error) {
	dir, err := os.MkdirTemp("", "imagetar")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": ref.TagStr(),
		"io.containerd.image.name":          containerdName(ref),
	})); err != nil {
		return err
	}
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

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package plainfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// zoo fills a folder with one of each kind of thing that can have a file's name.
func zoo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))
	must(os.WriteFile(filepath.Join(dir, "large"), make([]byte, MaxSmall+1), 0o600))
	must(os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "folder", "file"), []byte("text"), 0o600))
	must(os.Symlink("file", filepath.Join(dir, "link")))
	must(os.Symlink("folder", filepath.Join(dir, "linked")))
	must(os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	must(os.Symlink("/dev/zero", filepath.Join(dir, "device")))
	must(unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	here, err := os.Getwd()
	must(err)
	must(os.Chdir(dir)) // a socket's path must be short
	l, err := net.Listen("unix", "socket")
	must(errors.Join(err, os.Chdir(here)))
	t.Cleanup(func() { l.Close() })
	return dir
}

func TestRead(t *testing.T) {
	dir := zoo(t)
	for name, want := range map[string]string{
		"file": "", "link": "", // as Kubernetes lays out Secrets
		"large": "has more than 1048576 bytes", "folder": "is a folder", "pipe": "nothing comes out of",
		"device": "is a device", "socket": "socket", "nowhere": "no such file",
	} {
		path := filepath.Join(dir, name)
		data, err := Read(path, MaxSmall)
		if want == "" {
			if err != nil || string(data) != "text" {
				t.Errorf("%s: %q, %v", name, data, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want the path and %q", name, err, want)
		}
	}
}

// The shell's <(…) is a pipe.
func TestReadPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text := bytes.Repeat([]byte("a=b\n"), 1000)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if data, err := Read(fmt.Sprintf("/dev/fd/%d", r.Fd()), MaxSmall); err != nil || !bytes.Equal(data, text) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestOpenAndAppend(t *testing.T) {
	dir := zoo(t)
	for _, c := range []struct{ dir, name, want string }{
		{dir, "link", "is a symbolic link"}, {dir, "dangling", "is a symbolic link"}, {dir, "device", "is a symbolic link"},
		{dir, "folder", "is a folder"}, {dir, "pipe", "is a pipe"}, {dir, "socket", "is a socket"},
		{filepath.Join(dir, "linked"), "file", "is a symbolic link"}, {filepath.Join(dir, "file"), "file", "must be a folder"},
	} {
		for what, open := range map[string]func(string, string) (*os.File, error){"open": Open, "append": Append} {
			f, err := open(c.dir, c.name)
			if err == nil {
				f.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.dir) {
				t.Errorf("%s %s in %s: %v, want %q", what, c.name, c.dir, err, c.want)
			}
		}
	}
	if _, err := Open(dir, "../"+filepath.Base(dir)+"/file"); err == nil {
		t.Error("a name that leads out of the folder was opened")
	}
	if _, err := Open(dir, "nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	for range 2 {
		f, err := Append(dir, "fresh")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("ab"); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if data, err := ReadIn(dir, "fresh", 4); err != nil || string(data) != "abab" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := ReadIn(dir, "fresh", 3); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Errorf("a file that is too large: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a dangling link was followed")
	}
}

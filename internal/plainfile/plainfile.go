// SPDX-License-Identifier: Apache-2.0

// Package plainfile opens files that somebody else has named or laid out, and nothing
// but files: what is a device or larger than it can be meant to be is an error and not
// a process that hangs, or eats all memory.
package plainfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// MaxSmall is the size, in bytes, that properties, keys, certificates and the like have at most.
const MaxSmall = 1 << 20

// patience is how long a pipe may take to deliver what is read from it.
const patience = 10 * time.Second

// Read reads a file that the user has named, of at most limit bytes. Symbolic links are followed, since
// that is how Kubernetes lays out Secrets. A pipe is read to its end, as the shell's <(…) makes one;
// it is an error if that does not come within 10 s. Errors say what is wrong with the path, which they name.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	pipe := info.Mode().Type() == fs.ModeNamedPipe
	if !pipe && !info.Mode().IsRegular() {
		return nil, notPlain(path, info.Mode())
	}
	if pipe {
		if err := f.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return nil, fmt.Errorf("%s is a pipe that cannot be waited for: name a file: %w", path, err)
		}
	}
	data, err := readAll(f, path, limit)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("%s is a pipe that did not come to its end within %v: name a file", path, patience)
	case err == nil && pipe && len(data) == 0:
		return nil, fmt.Errorf("%s is a pipe that nothing comes out of: name a file", path)
	}
	return data, err
}

func readAll(f *os.File, path string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes: is it the file that was meant?", path, limit)
	}
	return data, err
}

// ReadIn reads a file of at most limit bytes as [Open] opens it.
func ReadIn(dir, name string, limit int64) ([]byte, error) {
	f, err := Open(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, f.Name(), limit)
}

// Open opens a file in a folder for reading. Neither may be a symbolic link: whoever could write into the
// folder might have made one to a file that is not theirs.
func Open(dir, name string) (*os.File, error) { return open(dir, name, os.O_RDONLY) }

// Append opens a file in a folder for appending, and makes it if it is not there. Neither may be a symbolic link.
func Append(dir, name string) (*os.File, error) {
	return open(dir, name, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
}

func open(dir, name string, flag int) (*os.File, error) {
	root, err := Folder(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	path := filepath.Join(dir, name)
	before, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0:
		return root.OpenFile(name, flag|os.O_EXCL, 0o666)
	case err != nil:
		return nil, named(path, err)
	case !before.Mode().IsRegular():
		return nil, notPlain(path, before.Mode())
	}
	f, err := root.OpenFile(name, flag|nonblock, 0o666)
	if err != nil {
		return nil, err
	}
	if err := same(f.Stat, before, path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Folder opens a folder that must not be a symbolic link, so that names in it stay in it.
func Folder(dir string) (*os.Root, error) {
	before, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, notFolder(dir, before.Mode())
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := same(func() (fs.FileInfo, error) { return root.Stat(".") }, before, dir); err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// same makes sure that what was opened is what was looked at before.
func same(stat func() (fs.FileInfo, error), before fs.FileInfo, path string) error {
	now, err := stat()
	if err == nil && !os.SameFile(now, before) {
		err = fmt.Errorf("%s was replaced while it was opened", path)
	}
	return err
}

// named gives an error of a path within a folder the whole path.
func named(path string, err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return &fs.PathError{Op: "open", Path: path, Err: e.Err}
	}
	return err
}

func notPlain(path string, mode fs.FileMode) error {
	return fmt.Errorf("%s is %s, and must be a file", path, kind(mode))
}

func notFolder(path string, mode fs.FileMode) error {
	return fmt.Errorf("%s is %s, and must be a folder", path, kind(mode))
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link, which is not followed"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "no file"
}

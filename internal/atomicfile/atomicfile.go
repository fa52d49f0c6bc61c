// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces files in one step.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes a file of these bytes, or replaces the one that is there, so that a
// reader, or a kill at any moment, finds the old file or the new one, whole. Its mode is perm,
// whatever the umask; until it has its name, nobody but its owner can read it. It is not
// synced: when the machine fails, it may be lost as any file just written.
func Write(path string, data []byte, perm fs.FileMode) error {
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = next.Write(data)
	if err == nil {
		err = next.Chmod(perm)
	}
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return nil
}

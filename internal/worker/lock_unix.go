// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFile is no name of a run, see [results.CheckName].
const lockFile = ".lock"

// lockDir keeps other workers out of a directory until the file that it returns is
// closed or the process ends, however it does.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	// A file system that knows no locks cannot tell, and is used as it is.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, fmt.Errorf("%s is in use by another worker: give each worker its own (--data)", dir)
	}
	return f, nil
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package dirlock

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Take locks a directory until the file that it returns is closed or the process ends,
// however it does. The error is [ErrInUse] if another holds it.
func Take(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return nil, err
	}
	// A file system that knows no locks cannot tell, and is used as it is.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, ErrInUse
	}
	return f, nil
}

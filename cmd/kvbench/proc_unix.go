// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "syscall"

// ownGroup keeps a terminal's Ctrl-C from a child: its parent passes it on, once.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

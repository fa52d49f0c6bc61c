// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import "syscall"

func ownGroup() *syscall.SysProcAttr { return nil }

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kvbench/kvbench/internal/playground"
)

func TestMain(m *testing.M) {
	if os.Getenv(asKvbench) != "" {
		main()
	}
	testscript.Main(m, map[string]func(){"kvbench": main})
}

// TestScripts runs the command line as its users do. Each script has a playground, at $PD.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			c, err := playground.Start(ctx, playground.Options{AdminAddr: "127.0.0.1:0"})
			if err != nil {
				return err
			}
			env.Defer(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			env.Setenv("PD", c.PDAddr())
			env.Setenv("ADMIN", c.AdminAddr())
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   exits,
			"absent":  absent,
			"capture": capture,
		},
	})
}

// exits CODE COMMAND… runs a command and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG…]")
	}
	code := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		_, code, _ = strings.Cut(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("exit code %q, want %s", code, args[0])
	}
}

// absent FILE checks that there is no such file.
func absent(ts *testscript.TestScript, neg bool, args []string) {
	if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
		ts.Fatalf("%s is there", args[0])
	}
}

// capture FILE PREFIX VARIABLE waits for a line of a file that has the prefix
// somewhere, and sets the variable to the word after it.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		data, _ := os.ReadFile(ts.MkAbs(args[0]))
		if _, after, ok := strings.Cut(string(data), args[1]); ok && strings.Contains(after, "\n") {
			ts.Setenv(args[2], strings.Fields(after)[0])
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no line of %s has %q after 20 s:\n%s", args[0], args[1], data)
		}
		time.Sleep(10 * time.Millisecond) // the interval of looking, not what is waited for
	}
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFailureModelIsTested: every row of docs/failure-model.md names a test that there is,
// and every test of a fault is named there.
func TestFailureModelIsTested(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	tests := make(map[string]bool)
	files, err := exec.Command("git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*_test.go").Output()
	if err != nil {
		t.Skip("not in a checkout: ", err)
	}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, name := range strings.Fields(string(files)) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "failure-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "|---|")
	named := regexp.MustCompile("`(Test\\w+)`")
	rows := 0
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "| ") {
			continue
		}
		rows++
		found := named.FindAllStringSubmatch(row, -1)
		if len(found) == 0 {
			t.Errorf("no test is named: %s", row)
		}
		for _, m := range found {
			if !tests[m[1]] {
				t.Errorf("there is no %s: %s", m[1], row)
			}
		}
	}
	if rows == 0 {
		t.Error("the table has no rows")
	}
	for name := range tests {
		if strings.HasPrefix(name, "TestFault") && !strings.Contains(table, "`"+name+"`") {
			t.Errorf("%s is not in docs/failure-model.md", name)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/magiconair/properties"

	"github.com/kvbench/kvbench/internal/plainfile"
	"github.com/kvbench/kvbench/workloads"
)

// FileSource reads a workload: the embedded one of that name (see package
// workloads), or else the properties file at that path. A path with a separator
// or an extension always means a file.
func FileSource(path string) (Source, error) {
	if !strings.ContainsAny(path, `/\.`) {
		data, err := workloads.Open(path)
		if err == nil {
			return ReadSource("workload "+path, "workload "+path, data)
		}
		if _, statErr := os.Stat(path); statErr != nil {
			return Source{}, fmt.Errorf("there is no workload named %s and no such file; ours are %s",
				path, strings.Join(workloads.List(), ", "))
		}
	}
	data, err := plainfile.Read(path, plainfile.MaxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return Source{}, fmt.Errorf("workload file %s does not exist", path)
	}
	if err != nil {
		return Source{}, fmt.Errorf("workload file: %w", err)
	}
	return ReadSource("workload file "+path, filepath.Base(path), data)
}

// ReadSource reads the text of a properties file. The syntax is Java's. Values are not
// expanded: one that contains ${ is refused, since other tools would put
// something else there. Blanks around values do not count.
func ReadSource(name, file string, data []byte) (Source, error) {
	source := Source{Name: name, File: true}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	if line := notText(data); line > 0 {
		return source, fmt.Errorf("%s:%d: not UTF-8 text: is it a properties file? If so, save it as UTF-8", file, line)
	}
	var errs []error
	for number, line := range logicalLines(string(data)) {
		where := fmt.Sprintf("%s:%d", file, number)
		p, err := loader.LoadBytes([]byte(line))
		if err != nil {
			errs = append(errs, &Error{where, strings.TrimSpace(line), "", "is not a property: write key=value"})
			continue
		}
		for _, key := range p.Keys() {
			value, _ := p.Get(key)
			pair := Pair{Key: strings.TrimSpace(key), Value: strings.TrimSpace(value), Where: where}
			if halved(line, key+value) {
				errs = append(errs, &Error{where, strings.TrimSpace(line), "", "has half a character, of the two that \\ud800 to \\udfff make one of: write the character itself"})
				continue
			}
			if strings.Contains(value, "${") {
				errs = append(errs, &Error{where, pair.Key, pair.Value, "kvbench does not expand ${…}: write the value itself"})
				continue
			}
			source.Pairs = append(source.Pairs, pair)
		}
	}
	return source, errors.Join(errs...)
}

// notText returns the number of the first line that is not text, or 0.
func notText(data []byte) int {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0 {
			return number
		}
	}
	return 0
}

// halved tells whether parsing a line made a replacement character that was not written there: that
// is what becomes of a surrogate, and all of them would be the same.
func halved(line, parsed string) bool {
	const replacement = string(utf8.RuneError)
	return strings.Count(parsed, replacement) > strings.Count(line, replacement)+strings.Count(strings.ToLower(line), `\ufffd`)
}

// logicalLines yields the lines of a properties file that carry a property, with
// the number of their first line: comments are left out, continued lines joined.
func logicalLines(data string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		data = strings.TrimPrefix(data, "\ufeff")
		data = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
		var logical strings.Builder
		first, number := 0, 0
		for line := range strings.SplitSeq(data, "\n") {
			number++
			if first == 0 {
				text := strings.TrimLeft(line, " \t\f")
				if text == "" || text[0] == '#' || text[0] == '!' {
					continue
				}
				first = number
			} else {
				line = strings.TrimLeft(line, " \t\f")
			}
			if body := strings.TrimRight(line, `\`); (len(line)-len(body))%2 == 1 {
				logical.WriteString(line[:len(line)-1])
				continue
			}
			logical.WriteString(line)
			if !yield(first, logical.String()) {
				return
			}
			logical.Reset()
			first = 0
		}
		if first != 0 && logical.Len() > 0 {
			yield(first, logical.String())
		}
	}
}

// EnvSource reads tikvbench's variables.
func EnvSource(lookup func(string) (string, bool)) (Source, error) {
	source := Source{Name: "environment"}
	var errs []error
	for _, v := range variables {
		value, ok := lookup(v.name)
		if value = strings.TrimSpace(value); !ok || value == "" {
			continue
		}
		where := v.name + " (environment)"
		pairs, err := v.pairs(value)
		if err != nil {
			errs = append(errs, &Error{where, v.name, value, err.Error()})
		}
		for _, pair := range pairs {
			pair.Where = where
			source.Pairs = append(source.Pairs, pair)
		}
	}
	return source, errors.Join(errs...)
}

// variable is an environment variable.
type variable struct {
	name   string
	stands []string // for these properties
	pairs  func(value string) ([]Pair, error)
}

// Variables returns the names of the variables that [EnvSource] reads.
func Variables() []string {
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.name
	}
	return names
}

var variables = []variable{
	same("NUM_THREADS", "threadcount"),
	same("NUM_CLIENTS", "clients"),
	same("TARGET_IOPS", "target"),
	same("BATCH_SIZE", "batch.size"),
	same("BATCH_WAIT", "tikv.batchwait", "stream.linger"),
	same("BATCH_WAIT_MAX", "tikv.batchwaitmax", "stream.maxbatch"),
	same("RUNTIME", "maxexecutiontime"),
	same("TOTAL_KEYS", "recordcount"),
	{"BENCH_TYPE", []string{"readproportion", "updateproportion"}, benchType},
}

// same is a variable whose value is that of properties.
func same(name string, keys ...string) variable {
	return variable{name, keys, func(value string) ([]Pair, error) {
		var pairs []Pair
		for _, key := range keys {
			pairs = append(pairs, Pair{Key: key, Value: value})
		}
		return pairs, nil
	}}
}

// benchType is tikvbench's choice of kinds.
func benchType(value string) ([]Pair, error) {
	read, update := "0", "0"
	switch strings.ToLower(value) {
	case "read":
		read = "1"
	case "update":
		update = "1"
	case "mixed":
		read, update = "0.5", "0.5"
	default:
		return nil, errors.New("must be read, update or mixed")
	}
	return []Pair{
		{Key: "readproportion", Value: read},
		{Key: "updateproportion", Value: update},
		{Key: "insertproportion", Value: "0"},
		{Key: "deleteproportion", Value: "0"},
		{Key: "scanproportion", Value: "0"},
		{Key: "readmodifywriteproportion", Value: "0"},
	}, nil
}

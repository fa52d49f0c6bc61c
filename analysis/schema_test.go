// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/kvbench/kvbench/analysis/internal/golden"
)

// schemaOf is the JSON Schema of a type as encoding/json writes it. Structs are definitions of their own.
func schemaOf(t reflect.Type, defs map[string]any) map[string]any {
	orNull := func(kind string, more map[string]any) map[string]any {
		more["type"] = []string{kind, "null"}
		return more
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice:
		return orNull("array", map[string]any{"items": schemaOf(t.Elem(), defs)})
	case reflect.Array:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), defs), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		return orNull("object", map[string]any{"additionalProperties": schemaOf(t.Elem(), defs)})
	case reflect.Pointer:
		return map[string]any{"anyOf": []any{schemaOf(t.Elem(), defs), map[string]any{"type": "null"}}}
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return map[string]any{"type": "string", "format": "date-time"}
		}
		if _, known := defs[t.Name()]; !known {
			defs[t.Name()] = nil // for types that hold themselves
			defs[t.Name()] = objectOf(t, defs)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	}
	panic("no schema of " + t.String())
}

func objectOf(t reflect.Type, defs map[string]any) map[string]any {
	properties, required := make(map[string]any), []string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.Anonymous && !f.IsExported() {
				continue
			}
			if f.Anonymous && name == "" {
				add(f.Type)
				continue
			}
			schema := schemaOf(f.Type, defs)
			if options == "omitempty" && f.Type.Kind() == reflect.Pointer { // it is never null
				schema = schemaOf(f.Type.Elem(), defs)
			}
			properties[name] = schema
			if options != "omitempty" {
				required = append(required, name)
			}
		}
	}
	add(t)
	slices.Sort(required)
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// docs/report.schema.json is the schema of the document; with -update it is written anew.
func TestSchema(t *testing.T) {
	t.Parallel()
	defs := make(map[string]any)
	document := schemaOf(reflect.TypeFor[Document](), defs)
	comparison := schemaOf(reflect.TypeFor[Comparison](), defs)
	text, err := json.MarshalIndent(map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"title":       "kvbench report or comparison",
		"description": "What kvbench prints with --json; docs/json.md says what every field means. Fields are added, never renamed.",
		"anyOf":       []any{document, comparison},
		"$defs":       defs,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "../../docs/report.schema.json", append(text, '\n'))

	written, err := os.ReadFile(filepath.Join("..", "docs", "report.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	schema := compile(t, written)
	r, err := Load((&fixture{window: 2 * time.Second, target: 100, threads: 8}).write(t))
	if err != nil {
		t.Fatal(err)
	}
	short := r.Report(75, 99.99)
	compared := Compare([]*Run{r}, []*Run{r}, DefaultSpread)
	for name, doc := range map[string]any{"report": &Document{Version: DocumentVersion, Runs: []*Report{short}}, "comparison": compared} {
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(schema, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	example, err := os.ReadFile(filepath.Join("testdata", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := valid(schema, example); err != nil {
		t.Error(err)
	}
	for what, wrong := range map[string][]byte{
		"a text for a number": regexp.MustCompile(`"ops_per_s": [0-9.]+`).ReplaceAll(example, []byte(`"ops_per_s": "many"`)),
		"a missing field":     bytes.ReplaceAll(example, []byte(`"verdict":`), []byte(`"judgement":`)),
	} {
		if valid(schema, wrong) == nil {
			t.Errorf("the schema allows %s", what)
		}
	}
}

func compile(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("report.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func valid(schema *jsonschema.Schema, text []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(doc)
}

// What docs/jq.md says works: every command finds something in a report.
func TestRecipes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "jq.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^    jq ((?:-\w+ )*)'([^']+)' report\.json$`).FindAllStringSubmatch(string(page), -1)
	if all := bytes.Count(page, []byte("\n    jq ")); all != len(commands) || all == 0 {
		t.Fatalf("%d commands, of which %d are understood", all, len(commands))
	}
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Skip("there is no jq")
	}
	for _, c := range commands {
		out, err := exec.Command(jq, append(strings.Fields(c[1]), c[2], filepath.Join("testdata", "report.json"))...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", c[0], err, out)
		} else if text := string(out); strings.TrimSpace(text) == "" || strings.Contains(text, "null") {
			t.Errorf("%s finds nothing:\n%s", c[0], text)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package plainyaml reads YAML that is mappings, lists and plain values, without anchors, aliases and tags. Each error begins with the
// line and column, from 1, of what it is about.
package plainyaml

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/kvbench/kvbench/internal/printable"
)

// ErrEmpty is the error of a text without anything but comments.
var ErrEmpty = errors.New("there is nothing in it")

// Node is a mapping, a list or a value, and where it stands.
type Node struct{ node ast.Node }

// Parse reads a text, which must be one document.
func Parse(text []byte) (root *Node, err error) {
	defer func() { // the library's, on text that is no YAML
		if recover() != nil {
			root, err = nil, at(nil, "this is no YAML")
		}
	}()
	doc, err := parser.ParseBytes(text, 0)
	var wrong yaml.Error
	switch {
	case errors.As(err, &wrong):
		return nil, at(wrong.GetToken(), "%s", printable.Line(wrong.GetMessage()))
	case err != nil:
		return nil, at(nil, "%w", err)
	case len(doc.Docs) > 1 && doc.Docs[1].Body != nil:
		return nil, at(doc.Docs[1].Body.GetToken(), "a second document begins: want one")
	case len(doc.Docs) == 0 || doc.Docs[0].Body == nil:
		return nil, at(nil, "%w", ErrEmpty)
	}
	return &Node{doc.Docs[0].Body}, nil
}

func at(t *token.Token, format string, args ...any) error {
	return fmt.Errorf("%s: %w", where(t), fmt.Errorf(format, args...))
}

func where(t *token.Token) string {
	if t == nil || t.Position == nil {
		return "1:1"
	}
	return fmt.Sprintf("%d:%d", t.Position.Line, t.Position.Column)
}

// Where is the line and column at which it stands, as "3:1".
func (n *Node) Where() string { return where(n.node.GetToken()) }

// Fail says that something is wrong with what stands here.
func (n *Node) Fail(format string, args ...any) error {
	node := n.node
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		node = m.Values[0].Key
	}
	return at(node.GetToken(), format, args...)
}

// Entry is a line of a mapping.
type Entry struct {
	Name       string
	Key, Value *Node
}

// Entries returns the entries of a mapping, of which each name is there once; none, if there is no value. With an error come
// those before it.
func (n *Node) Entries() (all []Entry, err error) {
	var values []*ast.MappingValueNode
	switch m := n.node.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	case *ast.NullNode:
	default:
		return nil, n.Fail("want names with values, as in name: value")
	}
	seen := make(map[string]bool)
	for _, v := range values {
		key := &Node{v.Key}
		name, err := key.Text()
		if err == nil && seen[name] {
			err = key.Fail("%s stands here a second time", name)
		}
		if err != nil {
			return all, err
		}
		seen[name] = true
		all = append(all, Entry{name, key, &Node{v.Value}})
	}
	return all, nil
}

// Fields returns the values of a mapping, by their names, which must be among those given.
func (n *Node) Fields(names ...string) (map[string]*Node, error) {
	all, err := n.Entries()
	if err != nil {
		return nil, err
	}
	fields := make(map[string]*Node)
	for _, e := range all {
		if !slices.Contains(names, e.Name) {
			return nil, e.Key.Fail("%q is none of %s", e.Name, strings.Join(names, ", "))
		}
		fields[e.Name] = e.Value
	}
	return fields, nil
}

// IsList tells whether it is one.
func (n *Node) IsList() bool {
	_, ok := n.node.(*ast.SequenceNode)
	return ok
}

// IsMapping tells whether it is one.
func (n *Node) IsMapping() bool {
	switch n.node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// List returns the elements of a list.
func (n *Node) List() ([]*Node, error) {
	list, ok := n.node.(*ast.SequenceNode)
	if !ok {
		return nil, n.Fail("want a list")
	}
	all := make([]*Node, len(list.Values))
	for i, v := range list.Values {
		all[i] = &Node{v}
	}
	return all, nil
}

// Text returns a value as it was written, without quotes; it is one line, and printable.
func (n *Node) Text() (string, error) {
	text, err := n.Lines()
	if err == nil && text != printable.Line(text) {
		return "", n.Fail("want one line without control characters")
	}
	return text, err
}

// Lines returns a value as it was written, without quotes, which may have several lines.
func (n *Node) Lines() (string, error) {
	switch v := n.node.(type) {
	case *ast.StringNode:
		return v.Value, nil
	case *ast.LiteralNode:
		return v.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return v.GetToken().Value, nil
	case *ast.NullNode:
		return "", n.Fail("there is no value; a list within braces stands in brackets, as in {a: [1, 2]}")
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode, *ast.MergeKeyNode:
		return "", n.Fail("want plain YAML, without anchors, aliases and tags")
	}
	return "", n.Fail("want one plain value")
}

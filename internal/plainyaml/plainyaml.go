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
		return nil, at(wrong.GetToken(), "%s", wrong.GetMessage())
	case err != nil:
		return nil, at(nil, "%w", err)
	case len(doc.Docs) > 1 && doc.Docs[1].Body != nil:
		return nil, at(doc.Docs[1].Body.GetToken(), "a second document begins: want one")
	case len(doc.Docs) == 0 || doc.Docs[0].Body == nil:
		return nil, at(nil, "there is nothing in it")
	}
	return &Node{doc.Docs[0].Body}, nil
}

func at(t *token.Token, format string, args ...any) error {
	line, column := 1, 1
	if t != nil && t.Position != nil {
		line, column = t.Position.Line, t.Position.Column
	}
	return fmt.Errorf("%d:%d: %w", line, column, fmt.Errorf(format, args...))
}

// Fail says that something is wrong with what stands here.
func (n *Node) Fail(format string, args ...any) error {
	node := n.node
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		node = m.Values[0].Key
	}
	return at(node.GetToken(), format, args...)
}

// Fields returns the values of a mapping, by their names, which must be among those given.
func (n *Node) Fields(names ...string) (map[string]*Node, error) {
	var values []*ast.MappingValueNode
	switch m := n.node.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		return nil, n.Fail("want names with values, of %s", strings.Join(names, ", "))
	}
	fields := make(map[string]*Node)
	for _, v := range values {
		key := Node{v.Key}
		name, err := key.Text()
		switch {
		case err != nil:
			return nil, err
		case !slices.Contains(names, name):
			return nil, key.Fail("%q is none of %s", name, strings.Join(names, ", "))
		case fields[name] != nil:
			return nil, key.Fail("%s stands here a second time", name)
		}
		fields[name] = &Node{v.Value}
	}
	return fields, nil
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

// Text returns a value as it was written, without quotes; it is printable.
func (n *Node) Text() (text string, err error) {
	switch v := n.node.(type) {
	case *ast.StringNode:
		text = v.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		text = v.GetToken().Value
	default:
		return "", n.Fail("want one plain value")
	}
	if text != printable.Line(text) {
		return "", n.Fail("want one line without control characters")
	}
	return text, nil
}

// Package reference writes the page of all commands of the program spore from their own help: docs/reference/commands.md.
//
// Cobra has a generator of its own (github.com/spf13/cobra/doc). It is one package with the generator of manual pages, so it would
// bring two Markdown libraries and a YAML library into the module; and it writes a page a command, without the groups.
package reference

//go:generate go run generate.go

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Page returns the page of a program: a section a group, and in it one a command.
func Page(root *cobra.Command) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Commands of %s\n\n", root.Name())
	b.WriteString("Generated from the help of the program by `go generate ./builder/cmd/reference`; do not edit.\n")
	fmt.Fprintf(&b, "`%s COMMAND --help` prints the same.\n", root.Name())
	b.WriteString("Every command exits with 0 when it is done, 1 when the input or the work failed, and 2 on wrong usage.\n")
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| command | what it does |\n|---|---|\n", strings.TrimSuffix(g.Title, ":"))
		group := ofGroup(root, g.ID)
		for _, c := range group {
			fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), anchor(c), strings.ReplaceAll(c.Short, "|", `\|`))
		}
		for _, c := range group {
			section(&b, c, "###")
		}
	}
	return []byte(b.String())
}

func ofGroup(root *cobra.Command, id string) []*cobra.Command {
	var out []*cobra.Command
	for _, c := range root.Commands() {
		if c.GroupID == id && c.IsAvailableCommand() {
			out = append(out, c)
		}
	}
	return out
}

// anchor is what Markdown calls a command's heading.
func anchor(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// section writes a command and those below it.
func section(b *strings.Builder, c *cobra.Command, heading string) {
	// Cobra adds the flag --help when it runs a command; the page has it like the help.
	c.InitDefaultHelpFlag()
	fmt.Fprintf(b, "\n%s %s\n\n%s.\n", heading, c.CommandPath(), c.Short)
	block(b, c.UseLine())
	if c.Long != "" {
		b.WriteString("\n" + paragraphs(c.Long))
	}
	if c.Example != "" {
		b.WriteString("\nExamples:\n")
		block(b, outdent(c.Example))
	}
	if flags := c.NonInheritedFlags().FlagUsages(); flags != "" {
		b.WriteString("\nFlags:\n")
		block(b, outdent(flags))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			section(b, sub, heading+"#")
		}
	}
}

func block(b *strings.Builder, text string) {
	fmt.Fprintf(b, "\n```\n%s\n```\n", strings.TrimRight(text, "\n"))
}

// outdent takes the two spaces off that help puts before each line.
func outdent(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}

// paragraphs returns a help text as Markdown: lines that the help indents, which are lists and tables, stay as they are.
func paragraphs(text string) string {
	var b strings.Builder
	inside := false
	for _, line := range strings.Split(text, "\n") {
		if indented := strings.HasPrefix(line, "  "); indented != inside {
			b.WriteString("```\n")
			inside = indented
		}
		b.WriteString(strings.TrimPrefix(line, "  ") + "\n")
	}
	if inside {
		b.WriteString("```\n")
	}
	return b.String()
}

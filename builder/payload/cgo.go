package payload

import (
	"context"
	"fmt"
	"strings"
)

// cgoPackages lists the packages, but for Go's own, that have code for cgo (cmd/cgo), where they can be listed.
func (c compiler) cgoPackages(ctx context.Context, pkg string) []string {
	args := append([]string{"list", "-e"}, c.options...)
	cmd := c.goCommand(ctx, append(args, "-deps", "-f", "{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}",
		pkg)...)
	cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

// explain adds to the error of a build that a program needs a C compiler, which no build has.
func (c compiler) explain(ctx context.Context, pkg string, err error) error {
	list := c.cgoPackages(ctx, pkg)
	if len(list) == 0 {
		return err
	}
	return fmt.Errorf("the program needs cgo, and programs are compiled without a C compiler so that their bytes do "+
		"not depend on the machine: the code of %s is in C; take a package that is written in Go, or build the program "+
		"elsewhere and take it with the key file: %w",
		strings.Join(list, ", "), err)
}

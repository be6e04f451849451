package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRenderArguments(t *testing.T) {
	for name, c := range map[string]struct {
		args, program []string
		ready         bool
	}{
		"files alone":                   {args: []string{"etcd"}},
		"a program":                     {args: []string{"etcd", "--", "/x", "-a", "--"}, program: []string{"/x", "-a", "--"}},
		"a program that says nothing":   {args: []string{"etcd", "--ready", "--", "/x"}, program: []string{"/x"}, ready: true},
		"a program with our own option": {args: []string{"etcd", "--", "/x", "--ready"}, program: []string{"/x", "--ready"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, program, ready, err := renderArguments(c.args)
			require.NoError(t, err)
			require.Equal(t, "etcd", got)
			require.Equal(t, c.program, program)
			require.Equal(t, c.ready, ready)
		})
	}
	for name, args := range map[string][]string{
		"nothing": nil, "no name": {"--", "/x"}, "two names": {"etcd", "kafka"}, "two names and a program": {"etcd", "kafka", "--", "/x"},
		"no program": {"etcd", "--"}, "ready without a program": {"etcd", "--ready"}, "an option alone": {"--ready", "--", "/x"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := renderArguments(args)
			require.ErrorAs(t, err, new(usageError))
		})
	}
}

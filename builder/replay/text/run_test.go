package text_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"spore/builder/replay/command"
	"spore/builder/replay/files"
	"spore/builder/replay/text"
	"spore/builder/tree"
)

// workDir is the directory of the scripts in these tests.
const workDir = "/w"

// given are the files that each case finds.
func given() map[string]string {
	return map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n" +
			"www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n",
		"conf": "# a file\n[global]\n   workgroup = WORKGROUP\n#PermitRootLogin no\nPermitRootLogin yes\n\n" +
			"[print$]\n; comment\npath = /var/lib\ninclude = /etc/samba/dhcp.conf\n",
		"abc": "a\nb\nc\n", "abd": "a\nb\nd\n", "bare": "one\ntwo", "empty": "", "numbers": "10\n9\n2\n1\n33\n-4\n2\n",
		"versions": "1.10\n1.9\n1.9~rc1\na2.tar.gz\na10.tar.gz\n1.9-1\n",
		"words":    "the cat the hat\n  The  end\n\nthe cat\n",
		"fields":   "b 2 x\na 10 y\nc 1 x\na 9 z\n", "tabs": "k1\tv1\nk2\tv2\n", "join1": "a 1\nb 2\nd 4\n",
		"join2": "a x\nb y\nc z\n", "dup": "a\na\nB\nb\nc\nc\nc\n", "raw": "\x00\x01\tA\xff\xfe\nend",
		"script.sed": "s/a/A/\n$!N\nP\nD\n", "prog.awk": "{ print NR \": \" $1 }\n", "patterns": "cat\nend\n",
		"long": strings.Repeat("lorem ipsum dolor ", 12) + "\n",
	}
}

type result struct {
	Status int
	// Stdout is quoted as in Go, for it may be no text.
	Stdout string
	// Files are those that differ from the given ones.
	Files map[string]string `json:",omitempty"`
}

// replay runs a command of ours.
func replay(args []string, stdin string) (result, string, error) {
	tr := tree.New()
	fs := files.New(tr)
	fs.MTime = 1700000000
	if err := fs.MkdirAll(workDir, 0o755); err != nil {
		return result{}, "", err
	}
	for name, data := range given() {
		if err := fs.WriteFile(workDir+"/"+name, []byte(data), 0o640); err != nil {
			return result{}, "", err
		}
	}
	var out, errs bytes.Buffer
	c := &command.Call{Name: args[0], Args: args[1:], Dir: workDir, Env: func(name string) string {
		return map[string]string{"PACKAGE": "demo"}[name]
	}, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Files: fs}
	fn := text.Commands()[args[0]]
	if fn == nil {
		return result{}, "", errors.New("no command " + args[0])
	}
	status, err := fn(context.Background(), c)
	r := result{Status: status, Stdout: strconv.QuoteToASCII(out.String())}
	if err != nil {
		return r, errs.String(), err
	}
	names, err := fs.ReadDir(workDir)
	if err != nil {
		return r, errs.String(), err
	}
	for _, name := range names {
		data, err := fs.ReadFile(workDir + "/" + name)
		if err != nil {
			return r, errs.String(), err
		}
		if old, ok := given()[name]; !ok || old != string(data) {
			if r.Files == nil {
				r.Files = map[string]string{}
			}
			r.Files[name] = string(data)
		}
	}
	return r, errs.String(), nil
}

func mustReplay(t *testing.T, stdin string, args ...string) (result, string) {
	t.Helper()
	r, errs, err := replay(args, stdin)
	require.NoError(t, err, "%q", args)
	return r, errs
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

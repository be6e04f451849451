package position

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	comment = "# This is private data. Do not parse.\n"
	sound   = comment + "LAST_CURSOR=s=a17cc9ccae78452186b565b14aa52dac;i=3;b=abababababababababababababababab;m=3eb;" +
		"t=6613844c3a803;x=d142a51f42e10b47\n"
)

// cases are files, and why they are removed; empty where they stay. With journal-upload itself the same is true: see
// TestSystemdsOwnProgramBeginsWithWhatIsLeft.
var cases = map[string]struct{ data, why string }{
	"as it is written":      {sound, ""},
	"nothing":               {"", ""},
	"a comment":             {comment, ""},
	"cut in a name":         {sound[:len(comment)+8], ""},
	"another journal":       {"LAST_CURSOR=s=" + strings.Repeat("0", 32) + ";i=99;b=" + strings.Repeat("c", 32) + ";m=5;t=5;x=5\n", ""},
	"a time alone":          {"LAST_CURSOR=t=6613844c3a803\n", ""},
	"cut in an identifier":  {sound[:len(comment)+40], "no identifier of 128 bits"},
	"cut behind a name":     {sound[:len(comment)+len("LAST_CURSOR=")], ""},
	"cut behind a letter":   {sound[:len(comment)+len("LAST_CURSOR=s")], "no part of one"},
	"cut behind an =":       {sound[:strings.Index(sound, "i=3")+2], "no number of 64 bits"},
	"cut behind the series": {sound[:strings.Index(sound, ";i=3")] + "\n", "it names no place"},
	"zeros":                 {strings.Repeat("\x00", 200), "bytes of zero"},
	"a tail of zeros":       {sound + strings.Repeat("\x00", 20), "bytes of zero"},
	"another text":          {"LAST_CURSOR=nonsense\n", "no part of one"},
	"no text":               {"LAST_CURSOR=s=\xff\xfe\n", "bytes that are not text"},
	// Its reader knows these; it writes none of them.
	"a blank before =":        {"LAST_CURSOR =nonsense\n", "no line of it"},
	"another end of a line":   {"#\rLAST_CURSOR=nonsense\n", "no line of it"},
	"a comment that goes on":  {"# \\\n" + "LAST_CURSOR=t=5\n", "no line of it"},
	"a variable that goes on": {"LAST_CURSOR=t=5;x=\\\nnonsense\n", "no line of it"},
	"a name that is damaged":  {strings.Replace(sound, "LAST", "LBST", 1), "no line of it"},
	"far too much":            {strings.Repeat("x", maxSize+1), "more than"},
}

func TestAFileThatItWouldNotBeginWithIsRemoved(t *testing.T) {
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store-1")
			require.NoError(t, os.WriteFile(path, []byte(tc.data), 0o600))
			why, err := Repair(path)
			require.NoError(t, err)
			if tc.why == "" {
				require.NoError(t, why)
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, tc.data, string(data))
				return
			}
			require.ErrorContains(t, why, tc.why)
			require.NoFileExists(t, path)
		})
	}
}

func TestWhatIsNotAFileStays(t *testing.T) {
	dir := t.TempDir()
	why, err := Repair(filepath.Join(dir, "none"))
	require.NoError(t, err)
	require.NoError(t, why)
	_, err = Repair(dir)
	require.ErrorContains(t, err, "it is not a file")
	require.DirExists(t, dir)
}

func TestWhatCannotBeReadIsRemoved(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	path := filepath.Join(t.TempDir(), "store-1")
	require.NoError(t, os.WriteFile(path, []byte(sound), 0))
	why, err := Repair(path)
	require.NoError(t, err)
	require.ErrorContains(t, why, "permission denied")
	require.NoFileExists(t, path)
}

func FuzzAFileIsSoundOrRemoved(f *testing.F) {
	for _, tc := range cases {
		if len(tc.data) < 1<<10 {
			f.Add([]byte(tc.data))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "store-1")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		why, err := Repair(path)
		require.NoError(t, err)
		_, gone := os.Stat(path)
		require.Equal(t, why != nil, os.IsNotExist(gone))
		again, err := Repair(path)
		require.NoError(t, err)
		require.NoError(t, again, "once is enough")
	})
}

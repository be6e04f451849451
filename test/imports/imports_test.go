// Package imports holds the folders of the repository to what they may import.
package imports

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// never has for a folder those whose packages it does not import.
var never = map[string][]string{
	"agent": {"builder"}, "builder": {"agent"},
	"fleet": {"builder", "agent", "dashboard"}, "dashboard": {"builder", "agent"},
	"cluster": {"builder", "fleet", "dashboard"}, "pki": {"builder", "agent", "fleet", "dashboard"},
	"wire": {"builder", "agent", "fleet", "dashboard"}, "services": {"builder"}, "storage": {"builder", "fleet", "dashboard"},
}

func TestFoldersImportWhatTheyMay(t *testing.T) {
	for folder, others := range never {
		seen := 0
		err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			seen++
			for _, i := range file.Imports {
				name, err := strconv.Unquote(i.Path.Value)
				require.NoError(t, err)
				for _, other := range others {
					require.False(t, strings.HasPrefix(name+"/", "spore/"+other+"/"), "%s imports %s", path, name)
				}
			}
			return nil
		})
		require.NoError(t, err)
		require.Positive(t, seen, folder)
	}
}

package programs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLicences(t *testing.T) {
	for _, good := range []string{
		"MIT", "GPL-2.0-only", "GPL-2.0+", "LicenseRef-Acme", "MIT AND BSD-3-Clause", "(MIT OR Apache-2.0) AND Zlib",
		"GPL-2.0-or-later WITH Classpath-exception-2.0", "((MIT))",
	} {
		require.True(t, isLicence(good), good)
	}
	for _, bad := range []string{
		"", " ", "Apache 2.0", "MIT and BSD", "MIT AND", "OR MIT", "(MIT", "MIT)", "()", "MIT (OR) BSD", "MIT WITH (x)",
		"(MIT) WITH x", "MIT\nOR BSD",
		"DocumentRef-x:LicenseRef-y", "<MIT>",
	} {
		require.False(t, isLicence(bad), bad)
	}
}

func FuzzLicence(f *testing.F) {
	f.Add("MIT OR (Apache-2.0 WITH LLVM-exception)")
	f.Fuzz(func(t *testing.T, text string) {
		if isLicence(text) {
			require.NotContains(t, text, "\n")
			require.NotEmpty(t, text)
		}
	})
}

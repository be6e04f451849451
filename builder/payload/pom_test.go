package payload

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzPom lets no pom.xml through whose artifacts could not be named, or which Maven would take from elsewhere.
func FuzzPom(f *testing.F) {
	const good = "<project><dependencies><dependency><groupId>g</groupId><artifactId>a</artifactId><version>1</version></dependency></dependencies>" +
		"<build><plugins><plugin><groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId><version>1</version></plugin></plugins></build></project>"
	f.Add(good)
	f.Add(strings.Replace(good, "<plugins>", "<plugins><plugin><artifactId>more</artifactId></plugin>", 1))
	f.Add("<project><parent/><repositories/><dependencies><dependency/></dependencies></project>")
	f.Add("<project><dependencies>")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := checkPom([]byte(text), nil)
		if err != nil {
			return
		}
		require.NotEmpty(t, list)
		for _, a := range list {
			require.NoError(t, a.check())
		}
		plugin, err := pluginOf([]byte(text))
		require.NoError(t, err)
		require.NoError(t, plugin.check())
	})
}

func FuzzJarsDescription(f *testing.F) {
	f.Add("version: '1'\njars: /usr/share/java\n")
	f.Add("files: [{jar: g:a, from: x, path: /y}]")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseJarsDescription([]byte(text), []Artifact{{Group: "g", Name: "a", Version: "1"}})
		if err == nil {
			require.NotEmpty(t, d.Version)
		}
	})
}

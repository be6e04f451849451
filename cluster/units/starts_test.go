package units

import (
	"testing"

	"github.com/stretchr/testify/require"

	"spore/cluster/units/unitfile"
)

func TestBesideTheFileOfAnInstanceThatOfItsTemplateSaysNothing(t *testing.T) {
	file := func(path, starts string) File {
		return File{Path: path, Settings: []unitfile.Setting{{Section: "Timer", Key: "Unit", Value: starts, Line: 2}}}
	}
	template, dropIn := file("job@.timer", "other.service"), file("job@.timer.d/10-a.conf", "third.service")
	own := file("job@daily.timer", "job@daily.service")
	for name, tc := range map[string]struct {
		files []File
		want  []string
	}{
		"a template alone":                    {[]File{template}, []string{"other.service"}},
		"an instance beside it":               {[]File{template, own}, nil},
		"an instance with a drop-in alone":    {[]File{template, file("job@daily.timer.d/10-a.conf", "x.service")}, []string{"other.service", "x.service"}},
		"a drop-in of the template":           {[]File{template, dropIn, own}, []string{"third.service"}},
		"another instance beside it":          {[]File{template, file("job@weekly.timer", "x.service")}, []string{"other.service"}},
		"an instance that starts another":     {[]File{template, file("job@daily.timer", "x.service")}, []string{"x.service"}},
		"neither, but a unit of similar name": {[]File{file("job.timer", "x.service")}, nil},
	} {
		var got []string
		for _, s := range StartsOthers(tc.files, "job@daily.timer") {
			got = append(got, s.Unit)
		}
		require.Equal(t, tc.want, got, name)
	}
	require.Len(t, StartsOthers([]File{file("job.timer", "x.service")}, "job.timer"), 1)
	require.Len(t, StartsOthers([]File{template}, "job@.timer"), 1)
}

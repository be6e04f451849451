package treemap

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAreasAreInProportionAndFillThePicture(t *testing.T) {
	boxes := []Box{{Size: 600}, {Size: 300}, {Size: 60}, {Size: 30}, {Size: 9}, {Size: 1}}
	area := rect{10, 20, 400, 250}
	rects := squarify(boxes, area)
	require.Len(t, rects, len(boxes))
	for i, r := range rects {
		require.InEpsilon(t, float64(boxes[i].Size)*100, r.w*r.h, 1e-6)
		require.GreaterOrEqual(t, r.x, area.x-1e-6)
		require.GreaterOrEqual(t, r.y, area.y-1e-6)
		require.LessOrEqual(t, r.x+r.w, area.x+area.w+1e-6)
		require.LessOrEqual(t, r.y+r.h, area.y+area.h+1e-6)
		for _, other := range rects[:i] {
			apart := r.x >= other.x+other.w-1e-6 || other.x >= r.x+r.w-1e-6 || r.y >= other.y+other.h-1e-6 || other.y >= r.y+r.h-1e-6
			require.True(t, apart, "%v and %v overlap", r, other)
		}
	}
}

func TestThePictureIsXMLAndTheSameTwice(t *testing.T) {
	boxes := []Box{{"a & <b>", 500, "5 MiB", 0}, {"none", 0, "", 0}, {"c", 100, "1 MiB", 1}, {"d", 100, "1 MiB", 1}}
	o := Options{Width: 800, Height: 400, Title: "What <takes> room", Groups: []string{"packages", "others"}}
	var a, b bytes.Buffer
	require.NoError(t, Write(&a, boxes, o))
	require.NoError(t, Write(&b, boxes, o))
	require.Equal(t, a.String(), b.String())
	require.Contains(t, a.String(), "a &amp; &lt;b&gt;")
	require.NotContains(t, a.String(), "none")
	d := xml.NewDecoder(&a)
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	boxes[0].Group = 2
	require.ErrorContains(t, Write(io.Discard, boxes, o), "has the group 2")
	require.NoError(t, Write(io.Discard, nil, o))
}

//go:build e2e

package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/require"

	"spore/test/browser"
)

// picturesVariable is the folder that pictures of the pages are written to.
const picturesVariable = "SPORE_PICTURES"

// mostPicture is what a picture may have, in bytes, and mostHeight how much of a page is on it, in pixels.
const (
	mostPicture = 150_000
	mostHeight  = 1400
)

// takePicture writes a picture of the page, without the times on it: those are others each time.
func takePicture(t *testing.T, b *browser.Tab, width int64, name string) {
	t.Helper()
	dir := os.Getenv(picturesVariable)
	if dir == "" || name == "" {
		return
	}
	height := browser.Eval[float64](b, `(() => {
		document.activeElement.blur();
		const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let n = texts.nextNode(); n; n = texts.nextNode()) {
			n.data = n.data.replace(/\d{4}-\d\d-\d\d \d\d:\d\d UTC/g, "2026-11-26 03:00 UTC").replace(/\d+ s ago/g, "12 s ago");
		}
		scrollTo(0, 0);
		return document.body.getBoundingClientRect().height; })()`)
	beyond := true
	shot, err := browser.Call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{
		CaptureBeyondViewport: &beyond, Clip: &page.Viewport{Width: float64(width), Height: min(height, mostHeight), Scale: 1},
	})
	require.NoError(t, err)
	full, err := png.Decode(bytes.NewReader(shot.Data))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few(full)))
	require.Less(t, out.Len(), mostPicture)
	require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("dashboard-%s-%d.png", name, width)), out.Bytes(), 0o644))
}

// distance is how far two colours are from each other, in steps of the channel that is farthest.
func distance(a, b color.RGBA) int {
	far := func(x, y uint8) int { return max(int(x)-int(y), int(y)-int(x)) }
	return max(far(a.R, b.R), far(a.G, b.G), far(a.B, b.B))
}

// few is a picture with 256 colours: those that it has most of, of which none is near another. Without that, greys at the
// edges of letters would leave no place for the few red ones.
func few(full image.Image) image.Image {
	count := map[color.RGBA]int{}
	of := func(x, y int) color.RGBA { return color.RGBAModel.Convert(full.At(x, y)).(color.RGBA) }
	r := full.Bounds()
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			count[of(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for near := 0; palette == nil || len(palette) > 256; near += 8 {
		palette = nil
		for _, c := range all {
			if !slices.ContainsFunc(palette, func(p color.Color) bool { return distance(p.(color.RGBA), c) < near }) {
				palette = append(palette, c)
			}
			if len(palette) > 256 {
				break
			}
		}
	}
	index := map[color.RGBA]uint8{}
	for c := range count {
		index[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(r, palette)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			out.SetColorIndex(x, y, index[of(x, y)])
		}
	}
	return out
}

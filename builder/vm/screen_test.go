package vm

import (
	"bytes"
	"image/color"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPicturesAreReadAsQEMUWritesThem(t *testing.T) {
	got, err := decodePPM(strings.NewReader("P6\n2 1\n255\n\x0a\x02\x03\xff\x00\x80rest"))
	require.NoError(t, err)
	require.Equal(t, color.RGBA{10, 2, 3, 255}, got.RGBAAt(0, 0), "a line end is a colour too")
	require.Equal(t, color.RGBA{255, 0, 128, 255}, got.RGBAAt(1, 0))
	for _, bad := range []string{"", "P6\n2 1\n255\n\x01", "P5\n2 1\n255\n\x01\x02\x03\xff\x00\x80", "P6\n2 1\n65535\n\x01\x02\x03\xff\x00\x80", "P6\n-1 1\n255\n", "P6\n99999 1\n255\n"} {
		_, err := decodePPM(strings.NewReader(bad))
		require.Error(t, err, "%q", bad)
	}
}

func FuzzPPM(f *testing.F) {
	f.Add([]byte("P6\n2 1\n255\n\x01\x02\x03\xff\x00\x80"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := decodePPM(bytes.NewReader(data)); err == nil {
			require.LessOrEqual(t, 3*got.Rect.Dx()*got.Rect.Dy(), len(data))
		}
	})
}

func TestAMachineWithADisplayShowsSomething(t *testing.T) {
	ctx := within(t, time.Minute)
	m, err := Start(ctx, Config{Name: "display", Dir: t.TempDir(), Accel: Accel{Name: "tcg", CPU: "max"}, Memory: 128, Display: true})
	require.NoError(t, err)
	defer m.Kill()
	require.NoError(t, m.Press("spc"))
	require.Eventually(t, func() bool {
		picture, err := m.Screen()
		return err == nil && picture.Bounds().Dx() >= 640
	}, time.Minute, 100*time.Millisecond)
}

package prompt

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color/palette"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

// imagesOf returns files of an image with that size, in base64.
func imagesOf(t testing.TB, width, height int) map[string]string {
	t.Helper()
	picture := image.NewPaletted(image.Rect(0, 0, width, height), palette.Plan9)
	files := map[string]string{}
	for name, encode := range map[string]func(*bytes.Buffer) error{
		"PNG":  func(b *bytes.Buffer) error { return png.Encode(b, picture) },
		"GIF":  func(b *bytes.Buffer) error { return gif.Encode(b, picture, nil) },
		"JPEG": func(b *bytes.Buffer) error { return jpeg.Encode(b, picture, nil) },
	} {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		files[name] = base64.StdEncoding.EncodeToString(b.Bytes())
	}
	jpegFile, _ := base64.StdEncoding.DecodeString(files["JPEG"])
	exif := append([]byte{0xff, 0xe1, 4, 2}, make([]byte, 1<<10)...) // as cameras write it
	jpegFile = append(append(jpegFile[:2:2], exif...), jpegFile[2:]...)
	files["JPEG with Exif"] = base64.StdEncoding.EncodeToString(jpegFile)
	w, h := width-1, height-1
	for name, chunk := range map[string][]byte{
		"WebP": append([]byte("VP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a"),
			byte(width), byte(width>>8), byte(height), byte(height>>8), 0),
		"WebP, lossless": append([]byte("VP8L\x00\x00\x00\x00\x2f"),
			byte(w), byte(w>>8|h<<6), byte(h>>2), byte(h>>10), 0, 0),
		"WebP, extended": append([]byte("VP8X\x0a\x00\x00\x00\x00\x00\x00\x00"),
			byte(w), byte(w>>8), byte(w>>16), byte(h), byte(h>>8), byte(h>>16)),
	} {
		files[name] = base64.StdEncoding.EncodeToString(append([]byte("RIFF\x00\x00\x00\x00WEBP"), chunk...))
	}
	return files
}

// The size of an image is read from the header of its file.
func TestPixelsOfImages(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {16, 300}, {640, 480}, {1920, 1080}} {
		for name, file := range imagesOf(t, size[0], size[1]) {
			for _, text := range []string{file, strings.NewReplacer("/", "_", "+", "-").Replace(file)} {
				text = text[:min(len(text), minPicture)]
				if got := pixelsIn([]byte(text)); got != size[0]*size[1] {
					t.Errorf("%s of %v: %d pixels", name, size, got)
				}
				for n := range min(len(text), 60) {
					if got := pixelsIn([]byte(text[:n])); got != 0 && got != size[0]*size[1] {
						t.Errorf("%s of %v: the first %d bytes have %d pixels", name, size, n, got)
					}
				}
			}
		}
	}
	for _, text := range []string{
		"", "a", "QUJD", strings.Repeat("/9j/", 1000), strings.Repeat("////", 1000), "UklGRgAAAABXRUJQVlA5",
		`\/9j\/`,
	} {
		if got := pixelsIn([]byte(text)); got != 0 {
			t.Errorf("%.20s: %d pixels", text, got)
		}
	}
}

// Classes are each 1.4 times the one before it, within bounds; what is no data has one of its own.
func TestSizesOfMedia(t *testing.T) {
	last := byte(0)
	for n := 1; n < 1<<30; n += 1 + n/8 {
		class := classOf(n, 31)
		if class < last || class > last+1 || class > 31 {
			t.Fatalf("%d is of class %d, after %d", n, class, last)
		}
		if n > 1<<9 && n < 1<<22 {
			if double := classOf(2*n, 31); double != class+2 {
				t.Errorf("twice %d is of class %d, after %d", n, double, class)
			}
		}
		last = class
	}
	if huge := classOf(1<<62, 31); huge != 31 || last != 31 {
		t.Errorf("the largest are of classes %d and %d", huge, last)
	}
	for text, want := range map[string]byte{
		"https://example.com/" + strings.Repeat("a", 1000): 0, "file-abc": 0, strings.Repeat("QUJD", 64): 32,
		strings.Repeat("QUJD", 1<<20): 32 + 28,
	} {
		size, byLength := sizeIn([]byte(text))
		if byLength {
			size = sizeOf(len(text))
		}
		if size != want {
			t.Errorf("%.30s is of class %d, want %d", text, size, want)
		}
	}
	for text, want := range map[string]int{
		"0~0": 0, "ffffffffffffffff~63": 63, "a~64": -1, "a~": -1, "a": -1, "a~-1": -1, "https://example.com/a~5": -1,
	} {
		if size, ok := sizeInText([]byte(text)); ok != (want >= 0) || ok && int(size) != want {
			t.Errorf("%s: class %d, %v", text, size, ok)
		}
	}
}

// A picture counts by its size, whether all of its body is there or a long one was left out.
func TestPicturesCountBySize(t *testing.T) {
	bytesOf := make([]int, MediaSizes)
	for size := range bytesOf {
		bytesOf[size] = 1000 * (size + 1)
	}
	question := strings.Repeat("what is that? ", 200)
	files := imagesOf(t, 1920, 1080)
	files["data"], files["long data"] = strings.Repeat("QUJD", 100), strings.Repeat("QUJD", 10_000)
	for name, file := range files {
		want, byLength := sizeIn([]byte(file))
		if byLength {
			want = sizeOf(len(file))
		}
		for api, body := range pictureBodies(file, question) {
			short, whole := long(16<<10, []byte(body)).Body()
			for _, text := range [][]byte{[]byte(body), short} {
				_, parts, err := Read(text, whole)
				if err != nil {
					t.Fatal(err)
				}
				c := NewChainer(testSecret, 512)
				_, plain := c.Chain(text, &parts)
				c.Expect(false, bytesOf)
				_, length := c.Chain(text, &parts)
				n, bytes, sizes := c.Media()
				if n != 1 || sizes[0] != want || bytes != bytesOf[want] || length != plain+bytes {
					t.Errorf("%s, %s: %d media count %d, of class %v, want %d", name, api, n, bytes, sizes, want)
				}
			}
		}
	}
}

// More media than are told apart are counted.
func TestManyMedia(t *testing.T) {
	part := `{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`
	c := NewChainer(testSecret, testBlock)
	blocksOf(t, c, chat(`{"role":"user","content":[`+strings.Repeat(part+",", maxMedia)+part+`]}`))
	if n, _, sizes := c.Media(); n != maxMedia+1 || len(sizes) != maxMedia {
		t.Errorf("%d media, %d sizes", n, len(sizes))
	}
}

// Any text has a size, and one that is cut off no other than all of it, unless its header is.
func FuzzSizeOfMedia(f *testing.F) {
	for _, size := range []int{1, 1000} {
		for _, file := range imagesOf(f, size, size) {
			f.Add([]byte(file[:min(len(file), 2000)]))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all := pixelsIn(text)
		size, byLength := sizeIn(text)
		if all < 0 || size >= firstLength || byLength && size != 0 || (all > 0) != (size > 0) {
			t.Fatalf("%q: %d pixels, class %d, %v", text, all, size, byLength)
		}
		if bytes.IndexByte(text, '\\') >= 0 {
			return
		}
		for n := range min(len(text), 200) {
			if got := pixelsIn(text[:n]); got != 0 && got != all {
				t.Fatalf("%q: %d pixels, of the first %d bytes %d", text, all, n, got)
			}
		}
	})
}

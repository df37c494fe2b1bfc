package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
)

const (
	uploadBegin = "--b\r\ncontent-disposition: form-data; name=\"language\"\r\n\r\nen\r\n"
	uploadModel = "--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nsql\r\n"
)

// startUploads starts a gateway where one of four endpoints has the adapter sql, as refusals have shown, and a function
// that begins an upload.
func startUploads(t *testing.T) (d *fakeDriver, begin func(frames []string, headers ...[2]string) *fakeStream) {
	d = startFake(t, 1, 4, requestsConfig)
	form := adapterForms["audio"]
	d.loopsPlay(newLoops("sql", "sql", "sql"), form.request, func(_ string, at int) (int, string) {
		if at == 3 {
			return 200, ""
		}
		return form.status, form.answer
	}, 5*time.Second)
	return d, func(frames []string, headers ...[2]string) *fakeStream {
		headers = append(headers, [2]string{"content-type", "multipart/form-data; boundary=b"})
		return d.client(0, streamtest.Request{Path: form.path, Headers: headers, Frames: frames, Unended: true})
	}
}

// An upload is held until its model comes, in however small parts, and for no longer than body_timeout.
func TestStalledUploads(t *testing.T) {
	for n, frames := range [][]string{{uploadBegin}, {"--b\r\n"}, {"--", "b\r\n", uploadBegin[5:]}} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			d, begin := startUploads(t)
			c := begin(frames)
			if c.Upstream() >= 0 {
				t.Fatal("it was not held")
			}
			d.advance(400 * time.Millisecond)
			if c.Upstream() < 0 {
				t.Fatal("it is held for its model")
			}
			c.Send("rest", true)
			want := "rest"
			for i := range frames {
				want = frames[len(frames)-1-i] + want
			}
			if got := c.Received(); got.Body != want || !got.Ended {
				t.Errorf("received %q, ended: %v; want %q", got.Body, got.Ended, want)
			}
			c.Head(200)
			c.Finish()
			d.drained()
			b := d.workers[0].vm.Bodies
			if waiting, _ := b.Open(); b.Kept != 0 || b.Held != 0 || waiting != 0 {
				t.Errorf("%d bytes are kept, %d held, %d requests wait", b.Kept, b.Held, waiting)
			}
		})
	}
}

// What comes in time decides, but for a few requests that ask the others again.
func TestUploadsInSmallParts(t *testing.T) {
	d, begin := startUploads(t)
	served := 0
	for range 40 {
		c := begin([]string{"--b\r\n", uploadBegin[5:]})
		for _, b := range []byte(uploadModel) {
			c.Send(string(b), false)
		}
		at := c.Upstream()
		if at < 0 {
			t.Fatal("it is held although its model has come")
		}
		c.Send("rest", true)
		if got, want := c.Received().Body, uploadBegin+uploadModel+"rest"; got != want {
			t.Errorf("received %q, want %q", got, want)
		}
		if at == 3 {
			served++
			c.Head(200)
		} else {
			c.Head(adapterForms["audio"].status)
			c.Data(adapterForms["audio"].answer)
		}
		c.Finish()
	}
	if served < 30 {
		t.Errorf("%d of 40 went to the endpoint with the adapter", served)
	}
	d.drained()
}

// The model of an upload that is compressed cannot be read: it is not waited for.
func TestCompressedUploadsAreNotHeld(t *testing.T) {
	d, begin := startUploads(t)
	c := begin(nil, [2]string{"content-encoding", "gzip"})
	if c.Upstream() < 0 {
		t.Fatal("it is held")
	}
	c.Send("\x1f", true)
	c.Finish()
	d.drained()
}

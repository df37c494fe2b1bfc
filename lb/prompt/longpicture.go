package prompt

// meetPicture begins to leave out the string that is being read, once it is known to be a long picture.
func (l *LongBody) meetPicture() {
	if !l.inside || len(l.kept) != l.begin+minPicture {
		return
	}
	data := l.kept[l.begin+1:]
	if !isDataURL(data) && (isProse(data) || !endsInPictureKey(l.kept[:l.begin])) {
		return
	}
	data = dataOf(data)
	l.digest.Reset()
	l.picture, l.data = true, 0
	l.size, l.byLength = sizeIn(data)
	l.room += len(data)
	l.kept = l.kept[:len(l.kept)-len(data)]
	l.leaveOut(data)
}

// leaveOut takes data of a picture. It is not inlined, for the size of the artifacts, as dataOf is not.
//
//go:noinline
func (l *LongBody) leaveOut(data []byte) {
	l.digest.Write(data)
	l.data += len(data)
	l.skipped += len(data)
}

// readPicture reads more of a picture, from at on, and returns the index after that. The closing quote is left.
func (l *LongBody) readPicture(part []byte, at int) int {
	end, ended := l.rest(part, at)
	if ended {
		end--
	}
	l.leaveOut(part[at:end])
	if l.picture = !ended; ended {
		if l.byLength {
			l.size = sizeOf(l.data)
		}
		l.keep(digestText(l.digest, l.size))
	}
	return end
}

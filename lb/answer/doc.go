// Package answer reads the answers of model servers as they pass: when the first token has come, how many tokens the
// request took, and whether what came under a good status is an answer at all. It reads bytes that may be cut into
// parts anywhere, and retains a few KiB.
//
// It knows the APIs of OpenAI (chat completions, completions, Responses), Anthropic, Gemini, Ollama, llama.cpp, SGLang,
// TGI and Triton by the names of members, wherever those have their place in the API; see roles.
package answer

#include <curl/curl.h>

/* Swift cannot call variadic functions: one wrapper an argument type. */

static inline CURLcode fm_easy_set_long(CURL *easy, CURLoption option, long value) {
  return curl_easy_setopt(easy, option, value);
}

static inline CURLcode fm_easy_set_offset(CURL *easy, CURLoption option, curl_off_t value) {
  return curl_easy_setopt(easy, option, value);
}

/* curl copies the string. */
static inline CURLcode fm_easy_set_string(CURL *easy, CURLoption option, const char *value) {
  return curl_easy_setopt(easy, option, value);
}

/* For user data, lists and buffers, which must outlive the handle. */
static inline CURLcode fm_easy_set_pointer(CURL *easy, CURLoption option, void *value) {
  return curl_easy_setopt(easy, option, value);
}

/* For CURLOPT_WRITEFUNCTION, CURLOPT_HEADERFUNCTION and CURLOPT_READFUNCTION. */
typedef size_t (*fm_data_callback)(char *bytes, size_t size, size_t count, void *user);

static inline CURLcode fm_easy_set_data_callback(CURL *easy, CURLoption option,
                                                 fm_data_callback callback) {
  return curl_easy_setopt(easy, option, callback);
}

typedef int (*fm_seek_callback)(void *user, curl_off_t offset, int origin);

static inline CURLcode fm_easy_set_seek_callback(CURL *easy, fm_seek_callback callback) {
  return curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, callback);
}

/* Called when the connection is there and the request is about to be sent. */
typedef int (*fm_prerequest_callback)(void *user, char *remote, char *local, int remote_port,
                                      int local_port);

static inline CURLcode fm_easy_set_prerequest_callback(CURL *easy,
                                                       fm_prerequest_callback callback) {
  return curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, callback);
}

typedef curl_socket_t (*fm_open_socket_callback)(void *user, curlsocktype purpose,
                                                 struct curl_sockaddr *address);

static inline CURLcode fm_easy_set_open_socket_callback(CURL *easy,
                                                        fm_open_socket_callback callback) {
  return curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, callback);
}

static inline CURLcode fm_easy_get_long(CURL *easy, CURLINFO info, long *value) {
  return curl_easy_getinfo(easy, info, value);
}

static inline CURLcode fm_easy_get_pointer(CURL *easy, CURLINFO info, void **value) {
  return curl_easy_getinfo(easy, info, (char **)value);
}

static inline CURLMcode fm_multi_set_long(CURLM *multi, CURLMoption option, long value) {
  return curl_multi_setopt(multi, option, value);
}

static inline CURLMcode fm_multi_set_pointer(CURLM *multi, CURLMoption option, void *value) {
  return curl_multi_setopt(multi, option, value);
}

typedef int (*fm_socket_callback)(CURL *easy, curl_socket_t socket, int what, void *user,
                                  void *socket_user);

static inline CURLMcode fm_multi_set_socket_callback(CURLM *multi, fm_socket_callback callback) {
  return curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, callback);
}

typedef int (*fm_timer_callback)(CURLM *multi, long milliseconds, void *user);

static inline CURLMcode fm_multi_set_timer_callback(CURLM *multi, fm_timer_callback callback) {
  return curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, callback);
}

/* The result is in a union. */
static inline CURLcode fm_message_result(const CURLMsg *message) { return message->data.result; }

/* Of the libcurl that is linked; never NULL. */
static inline const curl_version_info_data *fm_version_info(void) {
  return curl_version_info(CURLVERSION_NOW);
}

/* Macros that Swift does not import. */
static const size_t fm_write_pause = CURL_WRITEFUNC_PAUSE;
static const size_t fm_read_abort = CURL_READFUNC_ABORT;
static const size_t fm_error_size = CURL_ERROR_SIZE;
static const int fm_socket_timeout = CURL_SOCKET_TIMEOUT;
